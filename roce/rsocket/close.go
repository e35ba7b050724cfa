package rsocket

import (
	"net"
	"syscall"
	"time"
)

// Close ends the connection: calls in progress return an error that matches
// net.ErrClosed, and the peer is told. It does not wait. Data written before is not lost: the connection lingers
// until the peer's adapter has it, for at most 5 s, and then gives its memory back. No more than 1024
// connections of a device, or 128 MiB, linger at a time: the oldest make room, see [Lingering].
//
// There is no kernel that would go on when the device is closed, or the process ends:
// before that, wait with [Drain], or have Close wait with [Conn.SetLinger].
//
// The error says that data was lost, if Close has waited for it. A second Close does nothing and
// returns nil.
func (c *Conn) Close() error {
	if !c.valid() {
		return nil
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	linger := c.cfg.Linger
	c.mu.Unlock()
	c.alarm.Stop()
	// Whoever is in Read or Write leaves, and nobody enters any more.
	c.rd.kill()
	c.wr.kill()
	c.cl.set(time.Now())
	c.rmu.Lock()
	c.wmu.Lock()
	//lint:ignore SA2001 those who come from now on see that it is closed
	c.wmu.Unlock()
	c.rmu.Unlock()
	c.mu.Lock()
	var err error
	switch {
	case linger > 0:
		err = c.goodbye(linger)
	case linger == 0:
		c.look()
		c.orphan = !c.finished()
	}
	orphan, data := c.orphan, c.s.owes()
	c.mu.Unlock()
	if orphan {
		return opError("close", c.laddr, c.raddr, c.linger(data))
	}
	_ = c.id.Disconnect(nil) // fails if there is nothing to disconnect
	if e := c.release(); err == nil {
		err = e
	}
	return opError("close", c.laddr, c.raddr, err)
}

// goodbye sends DISCONNECT and waits until everything is acknowledged. mu is
// held.
func (c *Conn) goodbye(linger time.Duration) error {
	if c.err != nil || c.s.byeRecvd {
		return nil
	}
	c.cl.set(time.Now().Add(linger))
	defer c.cl.set(time.Time{})
	for !c.finished() {
		if err := c.wait(&c.cl); err != nil && c.err == nil {
			return err
		}
	}
	return c.err
}

// CloseWrite tells the peer that nothing more will be written: its Read returns io.EOF once it
// has all data. A Write in progress ends with an error. Reading goes on.
func (c *Conn) CloseWrite() error {
	if !c.valid() {
		return errInvalid
	}
	return opError("close", c.laddr, c.raddr, c.closeWrite())
}

func (c *Conn) closeWrite() error {
	c.mu.Lock()
	closed, done := c.closed, c.noWrite
	c.noWrite = true
	c.mu.Unlock()
	switch {
	case closed:
		return net.ErrClosed
	case done:
		return nil
	}
	c.wr.kill()
	c.wmu.Lock() // a Write in progress is over
	defer c.wmu.Unlock()
	c.mu.Lock()
	defer c.leave()
	if c.closed {
		return net.ErrClosed // cl is Close's
	}
	c.cl.set(time.Now().Add(lingerTime))
	defer c.cl.set(time.Time{})
	for {
		if done, err := c.sayFin(); done || err != nil {
			return err
		}
		if err := c.wait(&c.cl); err != nil {
			return err
		}
	}
}

// sayFin tells the peer that nothing more will be written, if that can be said now. wmu and mu are held.
func (c *Conn) sayFin() (done bool, err error) {
	switch {
	case c.closed:
		return false, net.ErrClosed
	case c.err != nil:
		return false, c.err
	case c.s.byeRecvd:
		return false, syscall.ENOTCONN
	case !c.s.canControl():
		return false, nil
	}
	what := uint32(ctrlShutdown)
	if c.s.finRecvd || c.noRead {
		what = ctrlDisconnect // that was the last direction
	}
	c.s.control(what, &c.cmsg)
	c.postControl()
	return true, nil
}

// CloseRead ends reading: Read returns io.EOF, also where one is waiting. What
// the peer still sends is thrown away as long as this side makes calls.
func (c *Conn) CloseRead() error {
	if !c.valid() {
		return errInvalid
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return opError("close", c.laddr, c.raddr, net.ErrClosed)
	}
	c.noRead = true
	c.mu.Unlock()
	c.rd.kill()
	c.rmu.Lock() // a Read in progress is over
	defer c.rmu.Unlock()
	c.mu.Lock()
	defer c.leave()
	if !c.closed {
		c.discard = true
		c.s.rcv.take(c.s.rcv.ready)
		c.credit()
		if c.s.finSent && !c.s.byeSent && c.s.canControl() && c.err == nil {
			c.s.control(ctrlDisconnect, &c.cmsg) // that was the last direction
			c.postControl()
		}
	}
	return nil
}

// SetLinger sets what Close does about data that the peer's adapter has not acknowledged, as SetLinger of
// net.TCPConn: negative, which is the default, sends it in the background; 0 discards it and resets the
// connection; positive has Close wait for so many seconds, and discards what is left then,
// with an error.
func (c *Conn) SetLinger(sec int) error {
	d := time.Duration(min(sec, maxLingerSec)) * time.Second
	switch {
	case sec < 0:
		d = 0
	case sec == 0:
		d = -1
	}
	if !c.valid() {
		return errInvalid
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return opError("set", c.laddr, c.raddr, net.ErrClosed)
	}
	c.cfg.Linger = d
	return nil
}
