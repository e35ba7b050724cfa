package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

func (c *clock) serve(ctx context.Context, local netip.AddrPort) (err error) {
	// Before clients can see the RDMA-CM port, the TCP port must be there.
	var lc net.ListenConfig
	tcp, err := lc.Listen(ctx, "tcp", wildcard(local))
	if err != nil {
		return err
	}
	defer tcp.Close()
	l, err := c.listen(rdmacm.PortSpaceTCP, local, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	waiting, stop := context.WithCancel(ctx)
	defer stop()
	accepted := make(chan *syncConn, 1)
	go func() {
		defer stop()
		if conn, err := tcp.Accept(); err == nil {
			accepted <- &syncConn{conn}
		}
	}()
	e, err := next(waiting, c.ch)
	if err == nil {
		return c.serveOld(ctx, e)
	}
	select {
	case c.sync = <-accepted:
	default:
		return err // the user's wish, or the device
	}
	defer func() { err = errors.Join(err, c.sync.close()) }()
	return c.tests("Accept", "Server", func(n int) error {
		err := c.accepts(ctx, n)
		return errors.Join(err, c.destroy())
	})
}

// accepts is one test.
func (c *clock) accepts(ctx context.Context, n int) error {
	c.reset()
	if err := c.sync.answer(ctx, 0); err != nil {
		return err
	}
	if err := c.until(ctx, stepConnect, n, c.handle); err != nil {
		return err
	}
	c.all[stepConnect].end()
	if err := c.sync.answer(ctx, byte(stepConnect)); err != nil {
		return err
	}
	if err := c.until(ctx, stepDisconnect, n, c.handle); err != nil {
		return err
	}
	c.all[stepDisconnect].end()
	return c.sync.answer(ctx, byte(stepDisconnect))
}

// handle is what the server does with an event.
func (c *clock) handle(e *rdmacm.Event) error {
	switch e.Type {
	case rdmacm.EventConnectRequest:
		if len(c.conns) == 0 {
			c.printf("\tAccepting\n")
			c.all[stepConnect].start()
		}
		t := &timed{id: e.ID}
		e.ID.Context = t
		c.conns = append(c.conns, t)
		return c.accept(t, &e.Conn)
	case rdmacm.EventEstablished:
		c.done[stepConnect]++
	case rdmacm.EventDisconnected:
		if c.done[stepDisconnect]++; c.done[stepDisconnect] == 1 {
			c.printf("\tDisconnecting\n")
			c.all[stepDisconnect].start()
		}
		if t, ok := e.ID.Context.(*timed); ok {
			t.spans[stepDisconnect].start()
			defer t.spans[stepDisconnect].end()
		}
		return e.ID.Disconnect(nil)
	}
	return nil
}

func (c *clock) accept(t *timed, peer *rdmacm.ConnParam) error {
	if err := c.createQP(t); err != nil {
		return err
	}
	if err := c.toInit(t); err != nil {
		return err
	}
	if err := c.toRTS(t, peer); err != nil {
		return err
	}
	return t.id.Accept(t.param())
}

// serveOld serves a client that keeps no step, and the next ones, until the
// user ends it, as the originals of that time do.
func (c *clock) serveOld(ctx context.Context, first *rdmacm.Event) error {
	c.remark("the client has no TCP connection: taken for cmtime of rdma-core before 52")
	ids := map[*rdmacm.ID]*verbs.QP{}
	defer func() {
		for id := range ids {
			_ = id.Close() // the queue pair with it; the device follows
		}
	}()
	for e := first; ; {
		switch e.Type {
		case rdmacm.EventConnectRequest:
			qp, err := e.ID.CreateQP(c.pd, verbs.QPInitAttr{
				SendCQ: c.cq, Caps: verbs.QPCaps{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
			})
			if err == nil {
				err = e.ID.Accept(nil)
			}
			if err != nil {
				return errors.Join(err, e.ID.Close())
			}
			ids[e.ID] = qp
		case rdmacm.EventDisconnected, rdmacm.EventRejected, rdmacm.EventUnreachable, rdmacm.EventConnectError:
			delete(ids, e.ID)
			if err := e.ID.Close(); err != nil {
				return err
			}
		}
		var err error
		if e, err = next(ctx, c.ch); err != nil {
			return err
		}
	}
}
