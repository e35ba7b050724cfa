package rsocket

import (
	"io"
	"net"
	"syscall"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/verbs"
)

// Core is for the packages of this repository that build on this one; it is of no use to others.
func (c *Conn) Core() core.Of[connCore] { return core.New(connCore{c}) }

// connCore is a Conn for programs that wait for many things in their own way, such as those written
// for poll(2). Its calls never wait: the program calls until syscall.EAGAIN is returned, and again
// when the function given to Notify is called. On a device in polling mode the program must keep
// calling.
type connCore struct{ *Conn }

// Vector is the completion vector of the connection.
func (c connCore) Vector() int { return c.cq.Vector() }

// Notify makes f called when something has come, once for each call of ReadyOrNotify. The call
// comes from whatever drives the device, with its lock held: f must not wait, or call anything of
// this stack; typically it writes to an eventfd. nil ends it; a call that has begun may still be in
// progress then.
func (c connCore) Notify(f func()) {
	if !c.valid() {
		return
	}
	if f == nil {
		c.notify.Store(nil)
	} else {
		c.notify.Store(&f)
	}
}

// onEvent announces a completion to pourer and to the function of Notify, if they have asked for
// it.
func (c *Conn) onEvent(*verbs.CQ) {
	if c.tendable.Swap(false) {
		c.pourer.Ring()
	}
	if f := c.notify.Load(); f != nil && c.asked.Swap(false) {
		(*f)()
	}
}

// Ready returns what a program can do now.
func (c connCore) Ready() core.Readiness { return c.readiness(false, nil) }

// ReadyOrNotify is Ready, and makes the function of Notify called when that changes. A call may
// also come without a change. The function wakes a thread, if that is not nil.
func (c connCore) ReadyOrNotify(by core.Sleeper) core.Readiness { return c.readiness(true, by) }

func (c *Conn) readiness(notify bool, by core.Sleeper) core.Readiness {
	if !c.valid() {
		return core.Readiness{Readable: true, Writable: true, Over: true, Err: errInvalid}
	}
	c.mu.Lock()
	defer c.leave()
	if !c.closed && c.err == nil {
		if notify {
			c.asked.Store(true)
			core.Open(c.cq).WakesBy(by)
			if err := c.cq.RequestNotify(false); err != nil {
				c.fail(err)
			}
		}
		c.look() // completions from before the request raise no event
	}
	return core.Readiness{
		Readable: c.closed || c.noRead || c.s.rcv.ready > 0 || c.readEnd() != nil,
		// Enough that a large TryWrite does not come back with nothing.
		Writable: c.writeEnd() != nil || c.writable(),
		Over:     c.closed || c.err != nil || c.s.over(),
		Err:      c.err,
		Drained:  c.closed || c.err != nil || !c.s.owes(),
	}
}

// writable reports whether a Write can take something. mu is held.
func (c *Conn) writable() bool {
	if snd := &c.s.snd; snd.stages() {
		return snd.stageable(maxTransfer) > 0 || c.canGrowSend()
	}
	return c.s.snd.data(maxTransfer) > 0
}

// TryRead is Read without waiting: if there is nothing to read it returns syscall.EAGAIN.
func (c connCore) TryRead(p []byte) (int, error) {
	if !c.valid() {
		return 0, errInvalid
	}
	if len(p) == 0 {
		return 0, c.usable("read")
	}
	if !c.rmu.TryLock() {
		return 0, syscall.EAGAIN
	}
	c.rd.begin(c.Conn)
	n, err := c.read(p)
	c.rd.end(c.Conn)
	c.rmu.Unlock()
	return n, c.tried("read", err)
}

// TryPeek is TryRead, but leaves the data in place.
func (c connCore) TryPeek(p []byte) (int, error) {
	if !c.valid() {
		return 0, errInvalid
	}
	if !c.rmu.TryLock() {
		return 0, syscall.EAGAIN
	}
	defer c.rmu.Unlock()
	n, err := c.peek(p)
	return n, c.tried("read", err)
}

func (c *Conn) peek(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.leave()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.noRead:
		return 0, io.EOF
	}
	if c.s.rcv.ready == 0 {
		c.look()
	}
	if c.s.rcv.ready == 0 {
		if err := c.readEnd(); err != nil {
			return 0, err
		}
		return 0, syscall.EAGAIN
	}
	for i := 0; n < len(p) && i < c.s.rcv.held; i++ {
		buf, off, k := c.s.rcv.unreadAt(i)
		n += copy(p[n:], c.recv[buf].mem[off:off+k])
	}
	return n, nil
}

// TryWrite is Write without waiting: it writes as much as there is room for, and returns
// syscall.EAGAIN if there is none.
func (c connCore) TryWrite(p []byte) (int, error) {
	return c.tryWriting("write", func() (int, error) { return c.write(p) })
}

// TryWriteAt is WriteAt without waiting, like TryWrite.
func (c connCore) TryWriteAt(p []byte, off int64) (int, error) {
	return c.tryWriting("write", func() (int, error) { return c.writeAt(p, off) })
}

// TryMap is Map without waiting: it returns syscall.EAGAIN if the peer cannot be told now.
func (c connCore) TryMap(buf []byte, off int64) (m *Mapping, err error) {
	_, err = c.tryWriting("map", func() (n int, err error) {
		m, err = c.mapBuf(buf, off)
		return 0, err
	})
	return m, err
}

func (c *Conn) tryWriting(op string, f func() (int, error)) (int, error) {
	if !c.valid() {
		return 0, errInvalid
	}
	if !c.wmu.TryLock() {
		return 0, syscall.EAGAIN
	}
	c.wr.begin(c)
	n, err := f()
	c.wr.end(c)
	c.wmu.Unlock()
	if n > 0 && err == syscall.EAGAIN {
		err = nil
	}
	return n, c.tried(op, err)
}

// HoldAtMost bounds what the send buffer takes of data that the peer's program has no room for, as
// SO_SNDBUF does for a TCP connection that is there already.
func (c connCore) HoldAtMost(n int) {
	if c.valid() {
		c.mu.Lock()
		c.s.snd.hold = max(n, minSendBuffer)
		c.mu.Unlock()
	}
}

// TryCloseWrite is CloseWrite without waiting: it returns syscall.EAGAIN if the peer cannot be told
// now, and must then be called again. In any case nothing can be written any more.
func (c connCore) TryCloseWrite() error {
	if !c.valid() {
		return errInvalid
	}
	c.endWriting()
	defer c.wmu.Unlock()
	c.mu.Lock()
	defer c.leave()
	if (c.s.finSent || c.s.finStaged) && !c.closed {
		return nil
	}
	if !c.s.canControl() {
		c.look()
	}
	done, err := c.sayFin()
	if err == nil && !done {
		err = syscall.EAGAIN
	}
	return c.tried("close", err)
}

// TryDisconnect ends both directions and tells the peer, as Close does. It returns syscall.EAGAIN
// until the peer's adapter has all written data, and must then be called again. After that Close
// has nothing to wait for. If the connection ends first, the error is that of Close.
func (c connCore) TryDisconnect() error {
	if !c.valid() {
		return errInvalid
	}
	c.endWriting()
	defer c.wmu.Unlock()
	c.mu.Lock()
	defer c.leave()
	if c.closed {
		return nil
	}
	if !c.parts() {
		return syscall.EAGAIN
	}
	return c.tried("close", c.losses(nil))
}

// endWriting stops all writing, and takes wmu.
func (c *Conn) endWriting() {
	c.mu.Lock()
	c.noWrite = true
	c.mu.Unlock()
	c.wr.kill()
	c.wmu.Lock()
}

// tried is opError, but returns nil and syscall.EAGAIN unchanged.
func (c *Conn) tried(op string, err error) error {
	if err == nil || err == syscall.EAGAIN {
		return err
	}
	return opError(op, c.laddr, c.raddr, err)
}

// begin makes the following call one that does not wait, with one look at the completions. The lock
// of the direction is held.
func (w *waiter) begin(c *Conn) {
	c.mu.Lock()
	w.try, w.looked = true, false
	c.mu.Unlock()
}

func (w *waiter) end(c *Conn) {
	c.mu.Lock()
	w.try = false
	c.mu.Unlock()
}
