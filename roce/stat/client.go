package stat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goroce/goroce/roce/internal/processes"
)

// Endpoint is a socket on which a process answers. The information in its name is unverified.
type Endpoint struct {
	name string
	User int // according to the name
	PID  int // according to the name
}

// ErrTooLong is wrapped when the answer of a process exceeds the limit.
var ErrTooLong = errors.New("stat: the answer is too long")

// Find returns the sockets of this network namespace that belong to the user of this process, or
// for root to any user; at most 256 for each user. The error is about /proc.
func Find() ([]Endpoint, error) {
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	defer f.Close()
	all, err := find(f)
	if err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	me := os.Geteuid()
	return slices.DeleteFunc(all, func(e Endpoint) bool { return me != 0 && e.User != me }), nil
}

// listening has the flags of a listening socket (__SO_ACCEPTCON).
const listening = "00010000"

// find reads /proc/net/unix: number, references, protocol, flags, type, state, inode, name.
func find(r io.Reader) (all []Endpoint, err error) {
	s := bufio.NewScanner(r)
	of := map[int]int{} // number of sockets by user
	for s.Scan() {
		c := strings.Fields(s.Text())
		if len(c) != 8 || c[3] != listening {
			continue
		}
		rest, ok := strings.CutPrefix(c[7], prefix)
		parts := strings.Split(rest, "/")
		if !ok || len(parts) != 3 {
			continue
		}
		user, err1 := strconv.Atoi(parts[0])
		pid, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && user >= 0 && pid > 0 && of[user] < maxEndpoints {
			of[user]++
			all = append(all, Endpoint{name: c[7], User: user, PID: pid})
		}
	}
	slices.SortFunc(all, func(a, b Endpoint) int { return (a.PID-b.PID)*2 + strings.Compare(a.name, b.name) })
	return all, s.Err()
}

// Ask queries the process, until the context ends. If the process is stopped or hangs, the error is
// context.DeadlineExceeded; if it has ended, ECONNREFUSED.
func (e Endpoint) Ask(ctx context.Context) (*Process, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", e.name)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer conn.Close()
	c := conn.(*net.UnixConn)
	cred, err := peerOf(c)
	if err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	if int(cred.Uid) != e.User { // otherwise one user could use up the room of another
		return nil, fmt.Errorf("stat: the socket is of user %d", cred.Uid)
	}
	if err := processes.Check(cred); e.User == os.Geteuid() && err != nil {
		return nil, fmt.Errorf("stat: the socket is %w", err)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(c, maxAnswer+1))
	switch {
	case err != nil:
		return nil, causeOf(ctx, err)
	case len(text) > maxAnswer:
		return nil, ErrTooLong
	case len(text) == 0:
		return nil, errors.New("stat: it said nothing")
	}
	p := &Process{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("stat: what it said is not understood: %w", err)
	}
	p.PID, p.User = int(cred.Pid), int(cred.Uid)
	return p, nil
}

// causeOf returns the context's error if that has ended, otherwise err.
func causeOf(ctx context.Context, err error) error {
	if c := ctx.Err(); c != nil {
		err = c
	}
	return fmt.Errorf("stat: %w", err)
}
