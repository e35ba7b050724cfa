package rdmacm

import (
	"context"
	"errors"
	"net/netip"

	"github.com/goroce/goroce/roce/rdmacm"
)

func (c *clock) client(ctx context.Context, from netip.Addr, to netip.AddrPort) (err error) {
	test := func(n int) error {
		err := c.connects(ctx, n, from, to)
		return errors.Join(err, c.destroy())
	}
	if c.sync = dialSync(ctx, to); c.sync == nil {
		c.remark("no TCP port %d at the server: taken for cmtime of rdma-core before 52", to.Port())
		if err := test(c.p.conns); err != nil {
			return err
		}
		c.table("qp_conn", &c.all, c.conns)
		return nil
	}
	defer func() { err = errors.Join(err, c.sync.close()) }()
	return c.tests("Connect", "Client", test)
}

// each does one step for all connections.
func (c *clock) each(title string, at step, f func(*timed) error) error {
	if title != "" {
		c.printf("\t%s\n", title)
	}
	c.all[at].start()
	defer c.all[at].end()
	for _, t := range c.conns {
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

// connects is one test.
func (c *clock) connects(ctx context.Context, n int, from netip.Addr, to netip.AddrPort) error {
	c.reset()
	if err := c.sync.swap(ctx, 0); err != nil {
		return err
	}
	for range n {
		c.conns = append(c.conns, &timed{})
	}
	c.all[stepFull].start()
	if err := c.prepare(ctx, from, to); err != nil {
		return err
	}
	c.printf("\tConnecting\n")
	c.all[stepConnect].start()
	for _, t := range c.conns {
		t.spans[stepConnect].start()
		if err := t.id.Connect(t.param()); err != nil {
			return err
		}
	}
	if err := c.until(ctx, stepConnect, n, c.onResponse); err != nil {
		return err
	}
	c.all[stepConnect].end()
	c.all[stepFull].end()
	if err := c.sync.swap(ctx, byte(stepConnect)); err != nil {
		return err
	}
	err := c.each("Disconnecting", stepDisconnect, func(t *timed) error {
		t.spans[stepDisconnect].start()
		defer t.spans[stepDisconnect].end()
		return t.id.Disconnect(nil)
	})
	if err != nil {
		return err
	}
	// Until the peer has said so: the device is not to go before.
	err = c.until(ctx, stepDisconnect, n, func(e *rdmacm.Event) error {
		if e.Type == rdmacm.EventDisconnected {
			c.done[stepDisconnect]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.sync.swap(ctx, byte(stepDisconnect))
}

// prepare does all that comes before the first message.
func (c *clock) prepare(ctx context.Context, from netip.Addr, to netip.AddrPort) error {
	err := c.each("Creating IDs", stepCreateID, func(t *timed) (err error) {
		t.spans[stepFull].start()
		t.spans[stepCreateID].start()
		defer t.spans[stepCreateID].end()
		if t.id, err = rdmacm.CreateID(c.ch, rdmacm.PortSpaceTCP); err != nil {
			return err
		}
		t.id.Context = t
		return t.id.SetRetries(crowdTries, crowdInterval)
	})
	if err != nil {
		return err
	}
	if from.IsValid() {
		err = c.each("Binding addresses", stepBind, func(t *timed) error {
			t.spans[stepBind].start()
			defer t.spans[stepBind].end()
			return t.id.BindAddr(on(from, 0))
		})
		if err != nil {
			return err
		}
	}
	resolve := func(title string, at step, ask func(*timed) error) error {
		err := c.each(title, at, func(t *timed) error {
			t.spans[at].start()
			return ask(t)
		})
		if err != nil {
			return err
		}
		err = c.until(ctx, at, len(c.conns), func(e *rdmacm.Event) error {
			t, _ := e.ID.Context.(*timed)
			t.spans[at].end()
			c.done[at]++
			return nil
		})
		c.all[at].end()
		return err
	}
	if err := resolve("Resolving addresses", stepResolveAddr,
		func(t *timed) error { return t.id.ResolveAddr(on(from, 0), to) }); err != nil {
		return err
	}
	if err := resolve("Resolving routes", stepResolveRoute,
		func(t *timed) error { return t.id.ResolveRoute() }); err != nil {
		return err
	}
	if err := c.each("Creating QPs", stepCreateQP, c.createQP); err != nil {
		return err
	}
	return c.each("Modify QPs to INIT", stepInit, c.toInit)
}

// onResponse takes the peer's acceptance.
func (c *clock) onResponse(e *rdmacm.Event) error {
	if e.Type != rdmacm.EventConnectResponse {
		return nil
	}
	t, _ := e.ID.Context.(*timed)
	if err := c.toRTS(t, &e.Conn); err != nil {
		return err
	}
	t.spans[stepEstablish].start()
	if err := t.id.Establish(); err != nil {
		return err
	}
	t.spans[stepEstablish].end()
	t.spans[stepConnect].end()
	t.spans[stepFull].end()
	c.done[stepConnect]++
	return nil
}
