package rsocket

import (
	"net"
	"syscall"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
)

// Close ends the connection. Calls in progress return an error that matches net.ErrClosed, and the
// peer is told. Written data is not lost: Close waits until the peer's adapter has acknowledged it,
// and CloseWrite's end of the data, for at most 30 s or [Config.Linger]. So a program may exit
// after Close. It returns at once if everything is acknowledged; if the peer does not read the data
// that fills its buffer, it takes the full time.
//
// If the connection breaks meanwhile, or the time is up, the error is a [*LostError], which says
// how many bytes the peer may not have, and the connection is reset. A second Close does nothing
// and returns nil.
//
// Close does not wait for the goodbye itself. After it was sent, the device keeps the connection
// until the peer's adapter has the goodbye, for the same time, and then frees its memory. At most
// 1024 connections of a device, or 128 MiB, linger like this at a time: the oldest make room, see
// [Lingering]. In a test of roce/link/sim, where no program ends before its devices, the device
// does all of it, and Close does not wait.
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
	c.pourer.Stop()
	// Calls of Read and Write in progress end, and later ones fail.
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
	if linger >= 0 {
		err = c.goodbye(linger)
		c.orphan = err == nil && !c.finished()
	}
	orphan := c.orphan
	c.mu.Unlock()
	if orphan {
		return opError("close", c.laddr, c.raddr, c.linger())
	}
	if err != nil {
		c.host.lost()
	}
	_ = c.id.Disconnect(nil) // fails if there is nothing to disconnect
	if e := c.release(); err == nil {
		err = e
	}
	return opError("close", c.laddr, c.raddr, err)
}

// goodbye tells the peer, and waits until it has all data written before. mu is held.
func (c *Conn) goodbye(linger time.Duration) error {
	if linger == 0 {
		linger = lingerTime
	}
	if c.parts() {
		return c.losses(nil)
	}
	if access.Shard(c.dev).Scheduled() {
		return nil // net/http closes with a mutex held that its other goroutines need: see shard.Shard.Turn
	}
	c.cl.set(time.Now().Add(linger))
	defer c.cl.set(time.Time{})
	for {
		err := c.wait(&c.cl)
		if c.finished() || err != nil || !c.s.owes() {
			return c.losses(err)
		}
	}
}

// parts looks whether the peer's adapter has all written data, and sends the goodbye behind it. mu
// is held, and no call writes any more.
func (c *Conn) parts() bool {
	c.look()
	// The last messages make no completion unless they fail.
	if c.s.owes() && c.s.snd.staged == 0 && core.Open(c.qp).SendRoom() == c.sends {
		for c.look() == len(c.wcs) {
		}
		c.s.ended()
	}
	owes := c.s.owes()
	if c.finished() {
		return true
	}
	if !owes {
		c.push()
	}
	return !owes
}

// finished sends the goodbye if it can, and reports whether nothing is left to wait for. mu is
// held, and no call writes any more.
func (c *Conn) finished() bool {
	s := &c.s
	if c.err != nil || s.failed {
		return true
	}
	c.pour() // the goodbye comes behind it
	switch {
	case !s.canControl(), s.stages():
	case !s.over() && !s.byeSent:
		s.fin(ctrlDisconnect, &c.cmsg)
		c.postControl()
	case s.owes() && !s.awaited(): // the last messages make no completion
		s.keepAlive(true, &c.cmsg)
		c.postControl()
	}
	return c.err != nil || (s.over() || s.byeSent) && s.settled()
}

// losses returns an error that says how much written data the peer may not have; cause is why the
// wait ended, nil if the connection says why. mu is held.
func (c *Conn) losses(cause error) error {
	if c.err != nil || c.s.failed {
		for c.look() == len(c.wcs) { // collect all completions, failed or not
		}
	}
	if c.s.owed == 0 || c.s.snd.staged == 0 && (c.s.failed && !c.lost || !c.s.failed && !c.s.owes()) {
		return nil
	}
	if cause == nil {
		cause = c.err
	}
	if cause == nil {
		cause = syscall.ECONNRESET // the peer left in order, and did not wait
	}
	return &LostError{int64(c.s.owed), cause}
}

// CloseWrite tells the peer that nothing more will be written: its Read returns io.EOF once it has
// all data. A Write in progress ends with an error. Reading goes on.
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
		return net.ErrClosed // cl now belongs to Close
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

// sayFin tells the peer that nothing more will be written, if it can be said now. If staged data
// waits for the peer to read, the end follows that data when it is sent. wmu and mu are held.
func (c *Conn) sayFin() (done bool, err error) {
	switch {
	case c.closed:
		return false, net.ErrClosed
	case c.err != nil:
		return false, c.err
	case c.s.byeRecvd:
		return false, syscall.ENOTCONN
	case c.s.snd.staged > 0:
		c.s.finStaged = true
		return true, nil
	case !c.s.canControl():
		return false, nil
	}
	c.postFin()
	return true, nil
}

// postFin tells the peer that nothing more will be written. mu is held.
func (c *Conn) postFin() {
	what := uint32(ctrlShutdown)
	if c.s.finRecvd || c.noRead {
		what = ctrlDisconnect // that was the last direction
	}
	c.s.fin(what, &c.cmsg)
	c.postControl()
}

// CloseRead ends reading: Read returns io.EOF, including calls that are waiting. Data that the peer
// still sends is discarded as long as this side makes calls.
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
			c.s.fin(ctrlDisconnect, &c.cmsg) // that was the last direction
			c.postControl()
		}
	}
	return nil
}

// SetLinger sets what Close does about data that the peer's adapter has not acknowledged, like
// SetLinger of net.TCPConn. 0 discards the data and resets the connection; a positive value makes
// Close wait for at most that many seconds; a negative one restores the default, 30 s. See
// [Conn.Close].
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
