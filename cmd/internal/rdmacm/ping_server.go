package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// serve is the server.
func (p *ping) serve(ctx context.Context, s *side, local netip.Addr) (err error) {
	l, err := s.listen(rdmacm.PortSpaceTCP, on(local, p.port), pingBacklog)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer func() {
		wg.Wait()
		if e := l.Close(); err == nil {
			err = e
		}
	}()
	for {
		e, err := expect(ctx, s.ch, rdmacm.EventConnectRequest)
		if err != nil {
			return err
		}
		ch, err := rdmacm.CreateEventChannel(s.dev)
		if err != nil {
			return errors.Join(err, e.ID.Close())
		}
		if err := e.ID.Migrate(ch); err != nil {
			return errors.Join(err, e.ID.Close(), ch.Close())
		}
		if !p.persistent {
			return p.serveOne(ctx, s, e, ch)
		}
		wg.Go(func() {
			if err := p.serveOne(ctx, s, e, ch); err != nil && ctx.Err() == nil {
				s.remark("%v: %v", e.ID.RemoteAddr(), err)
			}
		})
	}
}

// serveOne serves one client, from its request to its end.
func (p *ping) serveOne(ctx context.Context, s *side, req *rdmacm.Event, ch *rdmacm.EventChannel) (err error) {
	id := req.ID
	defer func() { err = errors.Join(err, id.Close(), ch.Close()) }()
	c, err := newPinger(p, s, id, ch)
	if err != nil {
		return errors.Join(err, id.Reject(nil))
	}
	defer func() { err = errors.Join(err, c.free()) }()
	if p.ownQP {
		if err := s.connectQP(id, c.qp, &req.Conn); err != nil {
			return errors.Join(err, id.Reject(nil))
		}
		param := p.param()
		param.QPN, param.StartingPSN = c.qp.Num(), c.qp.LocalInfo(0).PSN
		err = id.Accept(&param)
	} else {
		err = id.Accept(nil)
	}
	if err != nil {
		return err
	}
	// The first ping may come before the event that says the connection is up.
	if err = c.run(ctx, c.pongs); errors.Is(err, errFlushed) {
		err = nil // that is how it ends
	}
	return err
}

// pongs is the server's half of the exchange. It ends with errFlushed when the client hangs up.
func (c *pinger) pongs(ctx context.Context) error {
	buf := c.data.Bytes()
	for {
		if err := c.await(ctx, &c.got); err != nil {
			return err
		}
		if c.peer.size == 0 || int(c.peer.size) > len(buf) {
			return fmt.Errorf(
				"the client has %d bytes to read, this side room for %d: give -S the same number on both sides",
				c.peer.size, len(buf))
		}
		if err := c.rdma(ctx, verbs.WRRead, int(c.peer.size)); err != nil {
			return err
		}
		data := text(buf)
		if c.p.verbose {
			c.s.printf("server ping data: %s\n", data)
		}
		if err := c.send(nil); err != nil {
			return err
		}
		if err := c.await(ctx, &c.got); err != nil {
			return err
		}
		if err := c.rdma(ctx, verbs.WRWrite, min(len(data)+1, len(buf), int(c.peer.size))); err != nil {
			return err
		}
		if err := c.send(nil); err != nil {
			return err
		}
	}
}

// rdma reads from or writes to the buffer that the client has named.
func (c *pinger) rdma(ctx context.Context, op verbs.WROpcode, n int) error {
	err := c.qp.PostSend(&verbs.SendWR{
		ID: wrData, Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: c.peer.addr, RKey: ib.RKey(c.peer.rkey),
		SGList: []verbs.SGE{c.data.SGE(0, n)},
	})
	if err != nil {
		return err
	}
	return c.await(ctx, &c.done)
}
