package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
)

// roleEnv holds the role of a process of the soak, as JSON.
const roleEnv = "GOROCE_SOAK_ROLE"

// role is what a process is told when it starts.
type role struct {
	Name    string // for messages
	Addr    netip.Addr
	Server  bool
	Port    uint16            // of a server: Conn, and the next one for streams
	Servers map[string]target // of a client
	Loss    float64           // of packets, in each direction
	Seed    uint64
	Profile string // folder for heap profiles; none if empty
}

type target struct{ Conn, Stream netip.AddrPort }

// said is a line from a process to the one that has started it.
type said struct {
	What   string  `json:"what"` // ready, sample, counted, resting, error, fatal
	Sample *Sample `json:"sample,omitempty"`
	Error  string  `json:"error,omitempty"`
	Kind   string  `json:"kind,omitempty"` // of an error; none: nothing explains it
	Peer   string  `json:"peer,omitempty"`
	At     int64   `json:"at,omitempty"` // Unix time of an error, in ns
	// Done are the exchanges since the start, and Open the connections, by peer and kind.
	Done map[string]int64 `json:"done,omitempty"`
	Open map[string]int64 `json:"open,omitempty"`
}

// child is a process of the soak, seen from inside.
type child struct {
	role
	dev  *verbs.Device
	open open

	took     latency // exchanges of a client with the server that stays
	profiles int     // that are written

	mu  sync.Mutex
	out *json.Encoder
}

// Child runs a process of the soak, if this one is meant to be one, and reports whether it was.
// Main functions that call [Run] call it first.
func Child() bool {
	s, ok := os.LookupEnv(roleEnv)
	if !ok {
		return false
	}
	c := &child{out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(s), &c.role)
	if c.Profile != "" {
		runtime.MemProfileRate = 8 << 10
	}
	if err == nil {
		err = c.run()
	}
	if err != nil {
		c.say(said{What: "fatal", Error: err.Error()})
		os.Exit(1)
	}
	return true
}

func (c *child) say(s said) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(s) // its reader has gone, and so does this process
}

// run serves until its input ends.
func (c *child) run() (err error) {
	cfg := verbs.Config{Addrs: []netip.Addr{c.Addr}}
	if c.Loss > 0 {
		cfg.WrapLink = func(l link.Link) (link.Link, error) {
			return fault.New(l,
				fault.Rule{Dir: fault.Send, Action: fault.Drop, Probability: c.Loss, Seed: c.Seed},
				fault.Rule{Dir: fault.Receive, Action: fault.Drop, Probability: c.Loss, Seed: c.Seed + 1}), nil
		}
	}
	if c.dev, err = verbs.Open(cfg); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var work worker
	if c.Server {
		if work, err = c.serve(ctx); err != nil {
			return err
		}
	} else {
		work = c.client(ctx)
	}
	c.say(said{What: "ready"})
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word := in.Text(); word {
		case "rest":
			c.say(work.rest())
		case "go":
			work.resume()
		case "count":
			c.say(work.counts("counted"))
		case "sample", "exact":
			s, err := take(c.dev, &c.open, word == "exact")
			if word == "exact" {
				s.Exchanges = c.took.take()
			}
			if err == nil && word == "exact" && c.Profile != "" {
				err = c.profile()
			}
			if err != nil {
				return err
			}
			c.say(said{What: "sample", Sample: &s})
		default:
			return fmt.Errorf("what is %q", word)
		}
	}
	cancel()
	work.end()
	return c.dev.Close()
}

// profile writes what is on the heap to a file of its own.
func (c *child) profile() error {
	c.profiles++
	f, err := os.Create(filepath.Join(c.Profile,
		fmt.Sprintf("%s-%d.pb.gz", strings.ReplaceAll(c.Name, " ", "-"), c.profiles)))
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// worker is what a process does.
type worker interface {
	// rest ends what is not meant to last, and says what is left.
	rest() said
	resume()
	// counts says how much was done, and what is open.
	counts(what string) said
	end()
}

// failed tells of an error.
func (c *child) failed(peer, doing string, err error) {
	c.say(said{What: "error", Peer: peer, Kind: kindOf(err), Error: doing + ": " + err.Error(),
		At: time.Now().UnixNano()})
}
