package rsocket

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
)

// waiter is a reader, writer or closer that may wait on a connection.
type waiter struct {
	deadline
	parked bool // under Conn.mu: waits for wake
	try    bool // under Conn.mu: does not wait, see TryRead; looked: has looked once
	looked bool
	sig    chan struct{}
}

func (w *waiter) init() {
	w.deadline.init()
	w.sig = make(chan struct{}, 1)
}

// wait returns nil when it is worth looking again. mu is held, and released while waiting. One
// waiter waits for completions and handles them; the others wait for that one.
func (c *Conn) wait(w *waiter) error {
	if w.try {
		if w.looked {
			return syscall.EAGAIN
		}
		w.looked = true
		c.look()
		return nil
	}
	cancel := w.done()
	if isClosed(cancel) {
		return c.canceled(w)
	}
	if c.polling {
		w.parked = true
		c.mu.Unlock()
		select {
		case <-w.sig:
		case <-cancel:
		}
		access.Shard(c.dev).Turn(w.quit)
		c.mu.Lock()
		w.parked = false
		return nil
	}
	c.polling = true
	c.pollCtx = waitContext{cancel, w.quit}
	c.mu.Unlock()
	n, err := c.cq.Wait(&c.pollCtx, c.wcs[:])
	c.mu.Lock()
	c.polling = false
	c.handle(n)
	for _, o := range c.waiters() {
		if o.parked && o != w && c.concerns(o) {
			o.wake()
		}
	}
	switch {
	case err == nil:
		return nil
	case isClosed(cancel):
		return c.canceled(w)
	case errors.Is(err, roce.ErrClosed):
		c.fail(err)
		return c.err
	}
	return err
}

// canceled returns why a wait was broken off: by Close and the like, or by a deadline.
func (c *Conn) canceled(w *waiter) error {
	if w != &c.cl {
		if err := c.refused(w); err != nil {
			return err
		}
	}
	return errTimeout
}

// look handles available completions, without waiting, and returns their number. mu is held.
func (c *Conn) look() int {
	if c.polling {
		return 0
	}
	n, err := c.cq.Poll(c.wcs[:])
	c.handle(n)
	if err != nil {
		c.fail(err)
	}
	return n
}

// Err handles available completions, without waiting, and returns why the connection is over:
// io.EOF if the peer has closed it, nil if it is not over. It serves programs that only watch their
// mappings: they make no other call that would report it.
func (c *Conn) Err() error {
	if !c.valid() {
		return errInvalid
	}
	c.mu.Lock()
	defer c.leave()
	if !c.closed && c.err == nil {
		c.look()
	}
	err := c.err
	switch {
	case c.closed:
		err = net.ErrClosed
	case err == nil && c.s.over():
		err = io.EOF
	}
	return opError("check", c.laddr, c.raddr, err)
}

func (c *Conn) waiters() [3]*waiter { return [3]*waiter{&c.rd, &c.wr, &c.cl} }

// concerns reports whether a parked waiter has something to look at. The writer waits for too many
// things to tell them apart.
func (c *Conn) concerns(w *waiter) bool {
	return c.err != nil || c.s.finRecvd || w != &c.rd || c.s.rcv.ready > 0
}

func (w *waiter) wake() {
	select {
	case w.sig <- struct{}{}:
	default:
	}
}

// leave ends a call that may have waited: if others are waiting and none of them handles
// completions, it wakes one that will. It unlocks mu.
func (c *Conn) leave() {
	if !c.polling {
		woken := false
		for _, o := range c.waiters() {
			if o.parked {
				o.wake()
				woken = true
				break
			}
		}
		if !woken && c.s.stages() {
			c.tend()
		}
	}
	c.mu.Unlock()
}
