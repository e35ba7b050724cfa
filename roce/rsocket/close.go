package rsocket

import (
	"net"
	"syscall"
	"time"
)

// Close ends the connection: calls in progress return an error that matches
// net.ErrClosed, the peer is told, and all memory is given back. Data written
// before is not lost: Close waits until the peer's adapter has it, at most
// [Config.Linger]. The error is that of a second Close, or says that data was lost.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return opError("close", c.laddr, c.raddr, net.ErrClosed)
	}
	c.closed = true
	linger := c.cfg.Linger
	if c.keep != nil {
		c.keep.Stop()
	}
	c.mu.Unlock()
	// Whoever is in Read or Write leaves, and nobody enters any more.
	c.rd.kill()
	c.wr.kill()
	c.cl.set(time.Now())
	c.rmu.Lock()
	defer c.rmu.Unlock()
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.mu.Lock()
	var err error
	if linger >= 0 {
		err = c.goodbye(linger)
	}
	c.mu.Unlock()
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
	for c.err == nil && !c.s.byeRecvd {
		switch {
		case c.s.byeSent && c.s.sends == 0:
			return nil
		case !c.s.byeSent && c.s.canControl():
			c.s.control(ctrlDisconnect, &c.cmsg)
			c.postControl()
			continue
		}
		if err := c.wait(&c.cl); err != nil && c.err == nil {
			return err
		}
	}
	return c.err
}

// CloseWrite tells the peer that nothing more will be written: its Read returns io.EOF once it
// has all data. A Write in progress ends with an error. Reading goes on.
func (c *Conn) CloseWrite() error { return opError("close", c.laddr, c.raddr, c.closeWrite()) }

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
	c.cl.set(time.Now().Add(max(c.cfg.Linger, 0)))
	defer c.cl.set(time.Time{})
	for {
		switch {
		case c.closed:
			return net.ErrClosed
		case c.err != nil:
			return c.err
		case c.s.byeRecvd:
			return syscall.ENOTCONN
		case c.s.canControl():
			what := uint32(ctrlShutdown)
			if c.s.finRecvd || c.noRead {
				what = ctrlDisconnect // that was the last direction
			}
			c.s.control(what, &c.cmsg)
			c.postControl()
			return nil
		}
		if err := c.wait(&c.cl); err != nil {
			return err
		}
	}
}

// CloseRead ends reading: Read returns io.EOF, also where one is waiting. What
// the peer still sends is thrown away as long as this side makes calls.
func (c *Conn) CloseRead() error {
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

// SetLinger is [Config.Linger] in seconds, with the meaning that net.TCPConn
// gives it: 0 does not wait, negative is the default.
func (c *Conn) SetLinger(sec int) error {
	d := time.Duration(sec) * time.Second
	switch {
	case sec < 0:
		d = defaultLinger
	case sec == 0:
		d = -1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return opError("set", c.laddr, c.raddr, net.ErrClosed)
	}
	c.cfg.Linger = d
	return nil
}
