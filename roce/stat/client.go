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

	"github.com/goroce/goroce/roce/internal/peer"
)

// Endpoint is a socket on which a process answers. What its name says is only said.
type Endpoint struct {
	name string
	User int // that the name says
	PID  int // that the name says
}

// ErrTooLong is wrapped when a process says more than is believed.
var ErrTooLong = errors.New("stat: the answer is too long")

// Find returns the sockets of this network namespace, of the user of this process; for root, of
// all; at most 256 of each. The error is about /proc.
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

// listening are the flags of a socket that listens (__SO_ACCEPTCON).
const listening = "00010000"

// find reads /proc/net/unix: number, references, protocol, flags, type, state, inode, name.
func find(r io.Reader) (all []Endpoint, err error) {
	s := bufio.NewScanner(r)
	of := map[int]int{} // how many, by user
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

// Ask asks the process, for as long as the context lasts. A process that is stopped or hangs makes
// that context.DeadlineExceeded; one that is gone meanwhile ECONNREFUSED.
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
	if int(cred.Uid) != e.User { // or one user could use up the room of another
		return nil, fmt.Errorf("stat: the socket is of user %d", cred.Uid)
	}
	if err := peer.Check(cred); e.User == os.Geteuid() && err != nil {
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

// causeOf is the context's error, if that is why.
func causeOf(ctx context.Context, err error) error {
	if c := ctx.Err(); c != nil {
		err = c
	}
	return fmt.Errorf("stat: %w", err)
}
