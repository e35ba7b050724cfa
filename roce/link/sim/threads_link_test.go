package sim

import (
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// hosted is a link of a process of a [Machine]. It is not driven: its device runs as on a real
// link. It also is the device's machine, in the terms of roce/internal/shard/machine.go, whose
// interface the methods of Process below implement.
//
// Costs that arise with the lock of a device held are owed, and paid when the goroutine next comes
// to a call in which it may wait, because waiting for a mutex keeps the clock of the bubble from
// moving. So packets leave after the time owed so far.
type hosted struct {
	*Process
	l *Link

	mark uint64 // see Mark

	// under d.mu
	receives bool // a goroutine is in Recv or Wait
	faults   []string
	waited   int64 // how long available packets have waited while they could have been received
	longest  int64
}

var _ link.Link = (*hosted)(nil)

func (h *hosted) Now() int64                          { return h.l.Now() }
func (h *hosted) Addrs() []netip.Addr                 { return h.l.Addrs() }
func (h *hosted) MTU() ib.MTU                         { return h.l.MTU() }
func (h *hosted) Stats() link.Stats                   { return h.l.Stats() }
func (h *hosted) Blocked() bool                       { return false }
func (h *hosted) Returned() edge.Returned             { return h.l.Returned() }
func (h *hosted) SourcePort(p *edge.Path) uint16      { return h.l.SourcePort(p) }
func (h *hosted) Join(group, local netip.Addr) error  { return h.l.Join(group, local) }
func (h *hosted) Leave(group, local netip.Addr) error { return h.l.Leave(group, local) }
func (h *hosted) Watch(f func(link.PortState))        { h.l.Watch(f) }

func (h *hosted) Capabilities() link.Capabilities {
	c := h.l.Capabilities()
	c.Scheduled = true // time passes by itself
	return c
}

// Send puts packets on the wire once the call has been paid for.
func (h *hosted) Send(batch []edge.TxPacket) {
	if len(batch) > 0 {
		h.l.sendIn(h.owe(h.m.c.Syscall+time.Duration(len(batch))*h.m.c.Packet), batch)
	}
}

// Recv looks at what has arrived.
func (h *hosted) Recv(batch []edge.RxPacket) (int, error) {
	h.enter("Recv")
	defer h.leave()
	h.park(ask{kind: works, work: int64(h.m.c.Syscall)})
	n, err := h.l.Recv(batch)
	if n > 0 {
		h.owe(time.Duration(n) * h.m.c.Packet)
		h.d.mu.Lock()
		h.waited = 0
		h.d.mu.Unlock()
	}
	return n, err
}

// Wait sleeps in a system call.
func (h *hosted) Wait(timeout time.Duration) error {
	h.enter("Wait")
	defer h.leave()
	h.park(ask{kind: blocks, work: int64(h.m.c.Syscall), until: h.end(timeout), here: h.here})
	_, err := h.l.ready()
	return err
}

// end returns when a sleep ends by itself; 0: never.
func (h *hosted) end(timeout time.Duration) int64 {
	if timeout < 0 {
		return 0
	}
	return h.l.Now() + max(int64(timeout+h.m.c.Slack), 1)
}

// here reports whether Wait has nothing to wait for.
func (h *hosted) here() bool {
	h.l.f.lock()
	defer h.l.f.mu.Unlock()
	return h.l.closed || h.l.woken || len(h.l.inbox) > 0
}

// Wake ends a Wait.
func (h *hosted) Wake() {
	h.owe(h.m.c.Syscall)
	h.l.Wake()
	h.d.wake()
}

// Mark remembers what has arrived.
func (h *hosted) Mark() {
	h.l.f.lock()
	defer h.l.f.mu.Unlock()
	h.mark = h.l.taken + uint64(len(h.l.inbox))
}

// CaughtUp reports whether that was handed up.
func (h *hosted) CaughtUp() bool {
	h.l.f.lock()
	defer h.l.f.mu.Unlock()
	return h.l.taken >= h.mark
}

// Close takes the host off the fabric.
func (h *hosted) Close() error {
	err := h.l.Close()
	h.d.wake()
	return err
}

// enter records that a goroutine receives.
func (h *hosted) enter(call string) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.receives && len(h.faults) == 0 {
		h.faults = append(h.faults, call+" while somebody else receives:\n"+stack())
	}
	h.receives = true
}

func (h *hosted) leave() {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.receives = false
}

func stack() string {
	b := make([]byte, 8<<10)
	return string(b[:runtime.Stack(b, false)])
}

// The methods below are what a shard needs of a machine.

// CPUs returns how many CPUs the process may run on.
func (p *Process) CPUs() int {
	if len(p.c.CPUs) > 0 {
		return len(p.c.CPUs)
	}
	return len(p.m.cpus)
}

// Procs returns GOMAXPROCS.
func (p *Process) Procs() int { return p.c.Procs }

// ProcessRan returns the CPU time of the process in nanoseconds.
func (p *Process) ProcessRan() int64 {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	ran := p.ran + p.orphan
	if t := p.d.cur; t != nil && t.p == p {
		ran += t.debt
	}
	return ran
}

// Thread returns the caller's thread, 0 if it is not known to run.
func (p *Process) Thread() int {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if t := p.d.cur; t != nil && t.p == p {
		return t.th.id
	}
	return 0
}

// ThreadRan tells nothing, as programs in other languages, which it is for, are not modelled.
func (p *Process) ThreadRan(int) int64 { return 0 }

// ThreadReady tells nothing for the same reason.
func (p *Process) ThreadReady(int) bool { return false }

// Runnable reports whether goroutines of the process wait for a processor of Go's runtime.
func (p *Process) Runnable() bool {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	return len(p.queue) > 0
}

// Gosched lets other goroutines run.
func (p *Process) Gosched() { p.park(ask{kind: letsRun, work: int64(p.m.c.Goroutine)}) }

// Yield lets other threads run.
func (p *Process) Yield() { p.park(ask{kind: yields, work: int64(p.m.c.Syscall)}) }

// ShortSlices does nothing: the model gives each thread that is ready its turn.
func (p *Process) ShortSlices(bool) {}

// Nap sleeps in a system call.
func (p *Process) Nap(d time.Duration) {
	p.park(ask{kind: blocks, work: int64(p.m.c.Syscall), until: p.d.now() + int64(max(d, 1)+p.m.c.Slack), here: never})
}

func never() bool { return false }

// Lock takes a mutex that others may hold while time passes.
func (p *Process) Lock(mu *sync.Mutex) {
	for !mu.TryLock() {
		p.Sleep(p.m.c.Syscall)
	}
}
