package rsocket

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// ReadFromAddrPort waits for a datagram and copies it to p; bytes that do not fit are lost, as with
// UDP.
func (c *PacketConn) ReadFromAddrPort(p []byte) (n int, from netip.AddrPort, err error) {
	if !c.valid() {
		return 0, from, errInvalid
	}
	var whole int
	err = c.waitFor(&c.rd, func() error {
		whole, from, err = c.take(p, false)
		return err
	})
	return min(whole, len(p)), from, c.opError("read", netip.AddrPort{}, err)
}

// WriteToAddrPort sends p to a peer as one datagram. It waits only for room in the queue of sends.
func (c *PacketConn) WriteToAddrPort(p []byte, to netip.AddrPort) (n int, err error) {
	if !c.valid() {
		return 0, errInvalid
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	if err = c.waitFor(&c.wr, func() error { return c.put(p, to) }); err != nil {
		return 0, c.opError("write", to, err)
	}
	return len(p), nil
}

// Core is for the packages of this repository that build on this one; it is of no use to others.
func (c *PacketConn) Core() core.Of[packetCore] { return core.New(packetCore{c}) }

// packetCore is to a PacketConn what connCore is to a Conn.
type packetCore struct{ *PacketConn }

// TryReadFrom is ReadFromAddrPort without waiting: it returns syscall.EAGAIN if there is no
// datagram. whole is the original length of the datagram.
func (c packetCore) TryReadFrom(p []byte) (n, whole int, from netip.AddrPort, err error) {
	return c.tryRead(p, false)
}

// TryPeekFrom is TryReadFrom, but leaves the datagram in place.
func (c packetCore) TryPeekFrom(p []byte) (n, whole int, from netip.AddrPort, err error) {
	return c.tryRead(p, true)
}

func (c *PacketConn) tryRead(p []byte, peek bool) (n, whole int, from netip.AddrPort, err error) {
	if !c.valid() {
		return 0, 0, from, errInvalid
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	whole, from, err = c.take(p, peek)
	return min(whole, len(p)), whole, from, c.opErrorLocked("read", netip.AddrPort{}, err)
}

// TryWriteTo is WriteToAddrPort without waiting: it returns syscall.EAGAIN if there is no room.
func (c packetCore) TryWriteTo(p []byte, to netip.AddrPort) error {
	if !c.valid() {
		return errInvalid
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opErrorLocked("write", to, c.put(p, to))
}

// Notify makes f called when something has come, like that of a Conn.
func (c packetCore) Notify(f func()) {
	switch {
	case !c.valid():
	case f == nil:
		c.notify.Store(nil)
	default:
		c.notify.Store(&f)
	}
}

// Ready returns what a program can do now.
func (c packetCore) Ready() core.Readiness { return c.readiness(false, nil) }

// ReadyOrNotify is Ready, and makes the function of Notify called when that changes. A call may
// also come without a change. The function wakes a thread, if that is not nil.
func (c packetCore) ReadyOrNotify(by core.Sleeper) core.Readiness { return c.readiness(true, by) }

func (c *PacketConn) readiness(notify bool, by core.Sleeper) core.Readiness {
	if !c.valid() {
		return core.Readiness{Readable: true, Writable: true, Over: true, Err: errInvalid}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if notify {
		for _, q := range c.queues {
			core.Open(q.cq).WakesBy(by)
		}
		c.request()
	}
	c.look() // completions from before the request raise no event
	over := c.usable()
	r := core.Readiness{Readable: over != nil || c.told != nil || len(c.ready) > 0, Writable: true,
		Over: c.closed, Err: c.err, Drained: true}
	for _, q := range c.queues {
		r.Writable = r.Writable && len(q.sends) > 0
		r.Drained = r.Drained && len(q.sends) == q.most
	}
	if over != nil {
		r.Writable, r.Drained = true, true
	}
	return r
}

// Read is ReadFromAddrPort, for a connected socket.
func (c *PacketConn) Read(p []byte) (int, error) {
	n, _, err := c.ReadFromAddrPort(p)
	return n, err
}

// Write sends p to the connected peer.
func (c *PacketConn) Write(p []byte) (int, error) { return c.WriteToAddrPort(p, netip.AddrPort{}) }

// ReadFrom is ReadFromAddrPort; the address is an Addr.
func (c *PacketConn) ReadFrom(p []byte) (int, net.Addr, error) {
	n, from, err := c.ReadFromAddrPort(p)
	if err != nil {
		return n, nil, err
	}
	return n, Addr{from}, nil
}

// WriteTo is WriteToAddrPort; the address is an Addr or a *net.UDPAddr.
func (c *PacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	if a, ok := to.(interface{ AddrPort() netip.AddrPort }); ok && a.AddrPort().IsValid() {
		return c.WriteToAddrPort(p, a.AddrPort())
	}
	switch a := to.(type) {
	case Addr:
		if a.IsValid() {
			return c.WriteToAddrPort(p, a.AddrPort)
		}
	}
	if !c.valid() {
		return 0, errInvalid
	}
	return 0, c.opError("write", netip.AddrPort{}, argError("write", "to", "not an address of this kind"))
}

// SetDeadline sets the deadlines of reads and writes.
func (c *PacketConn) SetDeadline(t time.Time) error { return c.setDeadline(t, true, true) }

// SetReadDeadline sets the time at which reads give up with an error that matches
// os.ErrDeadlineExceeded; the zero time means never.
func (c *PacketConn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, true, false) }

// SetWriteDeadline is SetReadDeadline for writes.
func (c *PacketConn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, false, true) }

func (c *PacketConn) setDeadline(t time.Time, read, write bool) error {
	if !c.valid() {
		return errInvalid
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return c.opError("set", netip.AddrPort{}, net.ErrClosed)
	}
	if read {
		c.rd.set(t)
	}
	if write {
		c.wr.set(t)
	}
	return nil
}

func (c *PacketConn) opError(op string, to netip.AddrPort, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opErrorLocked(op, to, err)
}

func (c *PacketConn) opErrorLocked(op string, to netip.AddrPort, err error) error {
	if err == nil || err == syscall.EAGAIN {
		return err
	}
	if !to.IsValid() {
		to = c.remote
	}
	return opError(op, Addr{c.local}, Addr{to}, dialError(err))
}

// waitFor calls f with mu held until it returns something other than syscall.EAGAIN.
func (c *PacketConn) waitFor(w *deadline, f func() error) error {
	for tries := 0; ; tries++ {
		c.mu.Lock()
		err := c.refused(w)
		if err == nil {
			err = f()
		}
		var changed <-chan struct{}
		if err == syscall.EAGAIN {
			changed = c.arm()
			err = f() // for datagrams from before arm
		}
		dev := c.device
		if dev == nil && len(c.queues) > 0 {
			dev = c.queues[0].dev // a device that is added raises an event
		}
		c.mu.Unlock()
		if err != syscall.EAGAIN {
			return err
		}
		c.await(w, dev, changed, tries)
	}
}

// refused returns the error of a call that must not even begin. mu is held.
func (c *PacketConn) refused(w *deadline) error {
	if err := c.usable(); err != nil {
		return err
	}
	if w.passed() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// await waits until it is worth looking again.
func (c *PacketConn) await(w *deadline, dev *verbs.Device, changed <-chan struct{}, tries int) {
	done := w.done()
	if dev == nil {
		select {
		case <-changed:
		case <-done:
		}
		return
	}
	ctx := waitContext{done, w.quit}
	if err := access.Wait(dev, &ctx, changed, tries); err != nil && !isClosed(done) {
		c.mu.Lock()
		c.fail(err)
		c.mu.Unlock()
	}
}

// arm returns a channel that is closed at the next event. mu is held.
func (c *PacketConn) arm() <-chan struct{} {
	c.eventMu.Lock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	changed := c.changed
	c.eventMu.Unlock()
	c.request()
	return changed
}

// request asks the queues for events. mu is held.
func (c *PacketConn) request() {
	for _, q := range c.queues {
		if err := q.cq.RequestNotify(false); err != nil {
			c.fail(err)
		}
	}
}

// event wakes all waiting calls. It may be called with the lock of a device held.
func (c *PacketConn) event() {
	c.eventMu.Lock()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	c.eventMu.Unlock()
	if f := c.notify.Load(); f != nil {
		(*f)()
	}
}

// look handles available completions. mu is held.
func (c *PacketConn) look() {
	for _, q := range c.queues {
		if err := q.poll(func(slot, n int) error { return c.arrived(q, slot, n) }); err != nil {
			c.fail(err)
		}
	}
}

// arrived handles a datagram received by a queue pair. mu is held.
func (c *PacketConn) arrived(q *packetQueue, slot, n int) error {
	b := q.slot(slot)[:n]
	var ip ib.GRH
	from, data, ok := parseDatagram(b[min(n, ib.GRHBytes):])
	ok = ok && ip.Decode((*[ib.GRHBytes]byte)(b)) && ip.Src == from.Addr()
	if zone := q.addr.Addr().Zone(); zone != "" && from.Addr().IsLinkLocalUnicast() {
		from = netip.AddrPortFrom(from.Addr().WithZone(zone), from.Port())
	}
	switch {
	case !ok:
		c.stats.Malformed++
	case c.remote.IsValid() && from != c.remote:
		c.stats.Foreign++
	default:
		c.stats.Received++
		c.ready = append(c.ready, datagram{from: from, queue: q, slot: slot, data: data})
		return nil
	}
	return q.receive(slot)
}

// ask sends a datagram by the peer's UDP port. mu is held.
func (c *PacketConn) ask(p *packetPeer, data []byte) error {
	if err := c.say(opData, p, data); err != nil {
		return err
	}
	c.stats.Asked++
	c.stats.Sent++
	return nil
}

// take takes the oldest datagram and returns its length, or syscall.EAGAIN. mu is held.
func (c *PacketConn) take(p []byte, peek bool) (n int, from netip.AddrPort, err error) {
	if err = c.usable(); err != nil {
		return 0, from, err
	}
	if len(c.ready) == 0 {
		c.look()
	}
	if len(c.ready) == 0 {
		if err = c.takeTold(); err == nil {
			if err = c.usable(); err == nil {
				err = syscall.EAGAIN
			}
		}
		return 0, from, err
	}
	first := c.ready[0]
	copy(p, first.data)
	if !peek {
		c.ready = slices.Delete(c.ready, 0, 1)
		c.giveBack(first)
	}
	return len(first.data), first.from, nil
}

// giveBack releases the memory of a datagram. mu is held.
func (c *PacketConn) giveBack(p datagram) {
	if p.queue == nil {
		c.kept--
	} else if err := p.queue.receive(p.slot); err != nil {
		c.fail(err)
	}
}

// takeTold returns the kernel's report about the peer, once. mu is held.
func (c *PacketConn) takeTold() error {
	err := c.told
	c.told = nil
	return err
}

// put sends a datagram, or returns syscall.EAGAIN. mu is held.
func (c *PacketConn) put(p []byte, to netip.AddrPort) error {
	if err := c.usable(); err != nil {
		return err
	}
	if !to.IsValid() {
		if to = c.remote; !to.IsValid() {
			return syscall.EDESTADDRREQ
		}
	}
	if len(p) > maxDatagram(to.Addr()) {
		return syscall.EMSGSIZE
	}
	if err := c.takeTold(); err != nil {
		return err
	}
	peer, err := c.peer(to)
	if err != nil {
		return err
	}
	q := peer.queue
	switch {
	case !peer.known() && c.plain:
		return c.putPlain(peer, p)
	case !peer.known() || !q.fits(len(p)):
		return c.ask(peer, p)
	}
	if len(q.sends) == 0 {
		c.look()
	}
	if len(q.sends) == 0 {
		if err := c.usable(); err != nil {
			return err
		}
		return syscall.EAGAIN
	}
	if err := q.send(peer, p); err != nil {
		return err
	}
	c.stats.Sent++
	return nil
}
