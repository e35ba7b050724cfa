package sim_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"github.com/goroce/goroce/roce"
)

// swarmClient is a client with a program of its own.
type swarmClient struct {
	w    *swarmWorld
	h    *swarmHost
	rng  *rand.Rand
	well bool // nothing is to fail
}

// call makes a call, which has to end by itself. It reports whether it succeeded.
func (c *swarmClient) call(op string, f func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	defer cancel()
	start := c.w.net.Now()
	err := c.w.typed(op, f(ctx))
	c.w.mu.Lock()
	c.w.sum.calls++
	if err != nil {
		c.w.sum.failed++
	}
	c.w.mu.Unlock()
	switch {
	case err == nil:
		return true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), ctx.Err() != nil:
		c.w.t.Errorf("%v: %s hangs, since %v: %v", c.h.addr, op, time.Duration(start), err)
	case c.well || c.w.o.cuts+c.w.o.kills == 0:
		c.w.t.Errorf("%v: %s, begun at %v: %v", c.h.addr, op, time.Duration(start), err)
	}
	return false
}

// impatient makes a call that may be given up soon, for what nobody has sent or said; it reports
// whether the call succeeded.
func (c *swarmClient) impatient(op string, f func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(),
		time.Duration(c.rng.ExpFloat64()*float64(50*time.Microsecond)))
	defer cancel()
	err := c.w.typed(op, f(ctx))
	if at, _ := ctx.Deadline(); time.Now().After(at) {
		c.w.t.Errorf("%v: %s took %v longer than its context", c.h.addr, op, time.Since(at))
	}
	if err == nil {
		return true
	}
	if c.w.o.cuts+c.w.o.kills == 0 && !errors.Is(err, context.DeadlineExceeded) {
		c.w.t.Errorf("%v: %s: %v", c.h.addr, op, err)
	}
	c.w.mu.Lock()
	c.w.sum.impatient++
	c.w.mu.Unlock()
	return false
}

// messages carries out n operations on connections to the service of messages.
func (c *swarmClient) messages(n int) {
	for tries := 0; n > 0; tries++ {
		if tries > 20 {
			c.w.t.Errorf("%v: %d operations are left after 20 connections", c.h.addr, n)
			return
		}
		d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: c.w.device(c.h), KeepAlive: c.w.o.keepAlive}}
		var conn *roce.Conn
		for range c.rng.IntN(3) {
			if c.impatient("dial", func(ctx context.Context) (err error) {
				conn, err = d.DialAddr(ctx, netip.AddrPortFrom(c.w.hosts[0].addr, messagePort))
				return err
			}) {
				_ = c.w.typed("close", conn.Close())
			}
		}
		if !c.call("dial", func(ctx context.Context) (err error) {
			conn, err = d.DialAddr(ctx, netip.AddrPortFrom(c.w.hosts[0].addr, messagePort))
			return err
		}) {
			time.Sleep(time.Duration(c.rng.Int64N(int64(5 * time.Second))))
			continue
		}
		if n -= c.session(conn, n); n > 0 {
			c.w.mu.Lock()
			c.w.sum.redials++
			c.w.mu.Unlock()
		}
		_ = c.w.typed("close", conn.Close())
	}
}
