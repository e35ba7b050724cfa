package sim

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// Link is a host on a fabric, or one of several links of a host (see [Link.Another]): a
// [link.Driven].
type Link struct {
	*node
	slot     ib.Slot
	verifier *link.Verifier // receiving side only

	// under f.mu
	inbox    []*packet
	lent     []*packet // handed up by the last Recv
	back     []edge.Returned
	progress func()
	timerAt  int64
	timerSet bool
	entered  uint64 // sequence number of the timer event on the heap, 0 for none
	closed   bool
	woken    bool   // since the last Wait
	leaves   int64  // when the packets of the last Send leave
	taken    uint64 // packets that Recv has taken
	stats    link.Stats

	enteredAt int64
}

var (
	_ link.Scheduler = (*Link)(nil)
	_ link.Slotted   = (*Link)(nil)
)

// path is the link's state of a edge.Path.
type path struct {
	l       *Link
	icrc    ib.ICRC
	srcPort uint16
}

// Fabric returns the fabric of the link.
func (l *Link) Fabric() *Fabric { return l.f }

// Now returns the virtual time.
func (l *Link) Now() int64 { return l.f.Now() }

// Addrs returns the addresses of the host.
func (l *Link) Addrs() []netip.Addr { return slices.Clone(l.addrs) }

// MTU returns the MTU of the fabric.
func (l *Link) MTU() ib.MTU { return l.f.cfg.MTU }

// Capabilities says what the link can do.
func (l *Link) Capabilities() link.Capabilities {
	return link.Capabilities{Name: "sim", ICRCBits: 32, ECN: true, Virtual: true,
		Scheduled: l.Scheduled(), Slot: l.slot}
}

// Stats returns the counters.
func (l *Link) Stats() link.Stats {
	l.f.lock()
	defer l.f.mu.Unlock()
	return l.stats
}

// QueuePeak returns the most bytes that ever waited in the pipes of the host to and from the
// switch.
func (l *Link) QueuePeak() (up, down int) {
	l.f.lock()
	defer l.f.mu.Unlock()
	return l.up.peak, l.down.peak
}

// Blocked returns false: the pipes have queues.
func (l *Link) Blocked() bool { return false }

// Send puts packets on the wire.
func (l *Link) Send(batch []edge.TxPacket) { l.sendIn(0, batch) }

// sendIn is Send for packets that leave after a delay, but not before those of earlier calls.
func (l *Link) sendIn(ns int64, batch []edge.TxPacket) {
	if len(batch) == 0 {
		return
	}
	f := l.f
	f.lock()
	defer f.mu.Unlock()
	if l.closed {
		return
	}
	l.stats.TxCalls++
	l.leaves = max(f.now+ns, l.leaves)
	for i := range batch {
		l.send(&batch[i])
	}
}

func (l *Link) send(tx *edge.TxPacket) {
	f := l.f
	ps, ok := tx.Path.Link.(*path)
	if !ok || ps.l != l {
		if !slices.Contains(l.addrs, tx.Path.Src) || tx.Path.Dst.Is4() != tx.Path.Src.Is4() {
			l.stats.TxDropped++
			return
		}
		port := l.SourcePort(tx.Path)
		ps = &path{l, link.FlowICRC(tx.Path, port, ib.UDPPort), port}
		tx.Path.Link = ps
	}
	p := f.alloc()
	p.src = link.Source{Src: tx.Path.Src, Dst: tx.Path.Dst.WithZone(""), SrcPort: ps.srcPort}
	p.tclass, p.ttl = tx.Path.TrafficClass, tx.Path.HopLimit
	p.data = link.AppendPacket(p.data[:0], &ps.icrc, tx, 0)
	f.stats.Sent++
	at, ok := l.up.enter(f, p.wireBytes(), p)
	if !ok {
		f.stats.Overflowed++
		l.stats.TxDropped++
		f.recycle(p)
		return
	}
	f.note('>', p)
	l.stats.TxPackets++
	l.stats.TxDatagrams++
	l.stats.TxBytes += uint64(len(p.data))
	l.up.pass(f, at, l.leaves-f.now, event{kind: atSwitch, pkt: p})
}

// Recv hands up what has arrived.
func (l *Link) Recv(batch []edge.RxPacket) (int, error) {
	f := l.f
	f.lock()
	defer f.mu.Unlock()
	if l.closed {
		return 0, link.ErrClosed
	}
	f.free = append(f.free, l.lent...)
	l.lent = l.lent[:0]
	n, taken := 0, 0
	for _, p := range l.inbox {
		if n == len(batch) {
			break
		}
		taken++
		l.lent = append(l.lent, p)
		l.stats.RxDatagrams++
		switch l.verifier.Flow(&p.src).CheckKnown(p.data, 0) {
		case link.VerdictShort:
			l.stats.RxShort++
			continue
		case link.VerdictBad:
			l.stats.RxICRC++
			continue
		}
		batch[n] = edge.RxPacket{
			Src: p.src.Src, Dst: p.src.Dst, TrafficClass: p.tclass, HopLimit: p.ttl,
			SrcPort: p.src.SrcPort, Data: p.data,
		}
		l.stats.RxPackets++
		l.stats.RxBytes += uint64(len(p.data))
		n++
	}
	l.inbox = append(l.inbox[:0], l.inbox[taken:]...)
	l.taken += uint64(taken)
	return n, nil
}

// Wait steps the fabric once, or lets the time pass in which nothing happens, or blocks until there
// is something to step. A device does not call it, because its link is driven; it is for other
// users of the interface.
func (l *Link) Wait(timeout time.Duration) error {
	f := l.f
	f.byHand()
	if here, err := l.ready(); here || err != nil {
		return err
	}
	if timeout >= 0 {
		if end := f.Now() + int64(timeout); !f.step(end) {
			f.pass(end)
		}
		return nil
	}
	if f.Step() {
		return nil
	}
	changed := f.changes()
	// changed does not cover earlier events.
	if here, err := l.ready(); here || err != nil || f.Step() {
		return err
	}
	<-changed
	return nil
}

// ready reports whether Wait has nothing to wait for, and consumes wakes.
func (l *Link) ready() (bool, error) {
	l.f.lock()
	defer l.f.mu.Unlock()
	if l.closed {
		return false, link.ErrClosed
	}
	here := len(l.inbox) > 0 || l.woken
	l.woken = false
	return here, nil
}

// Wake makes the current or the next Wait return, and makes goroutines that wait for an event look
// again.
func (l *Link) Wake() {
	l.f.lock()
	defer l.f.mu.Unlock()
	l.woken = true
	if l.f.changed != nil {
		close(l.f.changed)
		l.f.changed = nil
	}
}

// Attach sets the function that handles packets and timers.
func (l *Link) Attach(progress func()) {
	l.f.lock()
	defer l.f.mu.Unlock()
	l.progress = progress
}

// SetTimer sets when progress is to be called.
func (l *Link) SetTimer(at int64, ok bool) {
	l.f.lock()
	defer l.f.mu.Unlock()
	l.timerSet, l.timerAt = ok, at
	if ok && (l.entered == 0 || at < l.enteredAt) {
		l.enterTimer()
	}
}

// enterTimer puts the timer on the heap. If it is moved to a later time the event stays, and is
// recognised as outdated when its turn comes: timers are moved far more often than they fire.
func (l *Link) enterTimer() {
	l.enteredAt = max(l.timerAt, l.f.now)
	l.f.push(event{at: l.enteredAt, kind: timer, link: l})
	l.entered = l.f.seq
}

// due reports whether a timer event is the link's current one, and its timer was not moved.
func (l *Link) due(e *event) bool {
	return e.seq == l.entered && l.timerSet && l.timerAt <= e.at
}

// outdated handles a timer event that was not due.
func (l *Link) outdated(e *event) {
	if e.seq != l.entered {
		return
	}
	l.entered = 0
	if l.timerSet {
		l.enterTimer()
	}
}

// Step lets the next event of the fabric happen.
func (l *Link) Step() bool { return l.f.Step() }

// Scheduled reports whether goroutines take turns: see [Test].
func (l *Link) Scheduled() bool { return l.f.sched != nil }

// Turn is Fabric.Turn with a channel that ends it: see link.Scheduler.
func (l *Link) Turn(quit <-chan struct{}) { l.f.turn(quit) }

// Rand is Fabric.Rand.
func (l *Link) Rand() io.Reader { return l.f.Rand() }

// Changed returns a channel that is closed when there is a new event.
func (l *Link) Changed() <-chan struct{} { return l.f.changes() }

// Watch reports once that everything is up: the fabric has no interfaces that could change.
func (l *Link) Watch(f func(link.PortState)) {
	if f != nil {
		f(link.PortState{Up: true, MTU: l.MTU()})
	}
}

// SourcePort returns the source port of packets on a path.
func (l *Link) SourcePort(p *edge.Path) uint16 { return cmp.Or(p.SrcPort, ib.UDPPort) }

// Mark does nothing: a Recv that returns 0 has handed up everything.
func (l *Link) Mark() {}

// CaughtUp reports whether no packet waits.
func (l *Link) CaughtUp() bool {
	l.f.lock()
	defer l.f.mu.Unlock()
	return len(l.inbox) == 0
}

// Join starts receiving packets for a multicast group.
func (l *Link) Join(group, local netip.Addr) error {
	switch {
	case !group.IsMulticast():
		return fmt.Errorf("sim: %v is not a multicast address", group)
	case !slices.Contains(l.addrs, local) || local.Is4() != group.Is4():
		return fmt.Errorf("sim: %v is no local address to join %v from", local, group)
	}
	l.f.lock()
	defer l.f.mu.Unlock()
	if l.closed {
		return link.ErrClosed
	}
	m := l.f.groups[group]
	if m == nil {
		m = make(map[*Link]int)
		l.f.groups[group] = m
	}
	m[l]++
	return nil
}

// Leave undoes one Join.
func (l *Link) Leave(group, local netip.Addr) error {
	l.f.lock()
	defer l.f.mu.Unlock()
	m := l.f.groups[group]
	if m[l] == 0 {
		return fmt.Errorf("sim: %v was not joined", group)
	}
	if m[l]--; m[l] == 0 {
		delete(m, l)
	}
	return nil
}

// Close takes the host off the fabric; its addresses are free again. Other links of the host stay.
func (l *Link) Close() error {
	f := l.f
	f.lock()
	defer f.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed, l.timerSet, l.progress = true, false, nil
	l.leave(l)
	f.free = append(append(f.free, l.inbox...), l.lent...)
	l.inbox, l.lent = nil, nil
	return nil
}
