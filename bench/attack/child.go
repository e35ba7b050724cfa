package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport/cc"
)

// roleEnv holds the role of a process, as JSON.
const roleEnv = "GOROCE_ATTACK_ROLE"

// role is what a process is told when it starts.
type role struct {
	Is             string // server, client, idle, attacker
	Server, Client netip.Addr
	Row            int // of attacks
	Known          Known
	Seed           uint64
}

func (r *role) attack() Attack { return attacks()[r.Row] }

// The roles.
const (
	isServer, isClient, isIdle, isAttacker = "server", "client", "idle", "attacker"
)

// status is what a process says of itself.
type status struct {
	Ops, Failed, Bytes uint64 // of a client; those of an attacker are packets that it has sent, and bytes
	Heard              uint64 // bytes that have come to an attacker's addresses
	Sent               uint64 // bytes that a device has sent
	// Worst is the longest operation since the process was asked before, At a time on a clock of
	// its own.
	CPU, Worst, At time.Duration
	Ended          string // why a connection has ended
	Known          Known
}

// child is a process, seen from inside.
type child struct {
	role
	dev   *verbs.Device
	began time.Time

	ops, failed, bytes, heard atomic.Uint64
	worst                     atomic.Int64 // ns
	since                     atomic.Int64 // when the operation under way began, since began; 0 if there is none

	mu    sync.Mutex
	ended string
	known Known
}

// Child runs a process of a run, if this one is meant to be one, and reports whether it was. Main
// functions that call [Run] call it first.
func Child() bool {
	s, ok := os.LookupEnv(roleEnv)
	if !ok {
		return false
	}
	c := &child{began: time.Now()}
	err := json.Unmarshal([]byte(s), &c.role)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", c.Is, err)
		os.Exit(1)
	}
	return true
}

// run works until its input ends, and answers each line with a status.
func (c *child) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	work := map[string]func(context.Context) error{isServer: c.serve, isClient: c.ask, isIdle: c.idle,
		isAttacker: c.attackServer}[c.Is]
	if work == nil {
		return fmt.Errorf("no role %q", c.Is)
	}
	if err := work(ctx); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if err := out.Encode(c.status()); err != nil {
			return err
		}
	}
	return nil // what is open ends with the process
}

func (c *child) status() status {
	s := status{Ops: c.ops.Load(), Failed: c.failed.Load(), Bytes: c.bytes.Load(), Heard: c.heard.Load(),
		At: time.Since(c.began), CPU: cpu()}
	s.Worst = time.Duration(c.worst.Swap(0))
	if since := c.since.Load(); since > 0 {
		s.Worst = max(s.Worst, s.At-time.Duration(since))
	}
	if c.dev != nil {
		s.Sent = c.dev.Counters().SentBytes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Ended, s.Known = c.ended, c.known
	return s
}

// cpu is the CPU time of this process.
func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// begin notes that an operation begins, and returns what notes its end.
func (c *child) begin() (end func()) {
	at := time.Since(c.began)
	c.since.CompareAndSwap(0, int64(at))
	return func() {
		c.since.Store(0)
		took := int64(time.Since(c.began) - at)
		for w := c.worst.Load(); took > w && !c.worst.CompareAndSwap(w, took); w = c.worst.Load() {
		}
	}
}

func (c *child) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = err.Error()
}

// open opens a device at an address.
func (c *child) open(addr netip.Addr) (*verbs.Device, error) {
	cfg := verbs.Config{Addrs: []netip.Addr{addr}}
	if c.attack().CC {
		cfg.Tuning.Congestion = cc.Config{Algorithm: cc.DCQCNPaper}
	}
	return verbs.Open(cfg)
}

// idle opens devices at the server's address, and leaves them alone.
func (c *child) idle(context.Context) error {
	for i := range c.attack().Idle {
		if _, err := c.open(c.Server); err != nil {
			return fmt.Errorf("idle device %d: %w", i+1, err)
		}
	}
	return nil
}

// numbers are what an attacker may know of a client's connection.
func (c *child) numbers(qp *verbs.QP) (Known, error) {
	a, _, err := qp.Query()
	return Known{Server: c.Server, Client: c.Client, ServerQPN: a.DestQPN, ClientQPN: ib.QPN(qp.Num()),
		ReadPSN: a.SQPSN}, err
}
