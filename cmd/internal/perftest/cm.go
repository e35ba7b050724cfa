package perftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rdmacm"
)

// With -R, RDMA-CM connects the QPs of the test, and with -R or -z a QP beside them, the control,
// on which the exchange takes place instead of on TCP. The server listens on the same RDMA-CM port
// twice: for the control, and then for the QPs of the test. Originals begin to listen again only
// after the barrier that sends the client on, and a client that is quicker is refused, which one of
// perftest 4.5 does not survive. A server of ours listens again before it accepts the control; a
// client of ours asks again, in the name of the same connection: what was repeated of a request
// that was refused may still be on its way when the server listens, and an original does not
// survive that it has accepted a request of a connection that the client has forgotten.

const (
	// cmListenWait is how long a client asks for a QP of the test: the server says
	// that it goes on to listen before it does.
	cmListenWait = 5 * time.Second
	// cmLinger is how long a side waits for the other one to hang up, too.
	cmLinger = 5 * time.Second
)

// cmEnd is what this side has of RDMA-CM.
type cmEnd struct {
	s       *session
	ch      *rdmacm.EventChannel
	local   netip.AddrPort // to bind to
	remote  netip.AddrPort // client: the server
	control *control
	tests   *rdmacm.ID   // server: the listener for the QPs of the test
	ids     []*rdmacm.ID // of the test
	gone    map[*rdmacm.ID]bool
}

// cmRefused is an event that should not have come.
type cmRefused struct {
	e    *rdmacm.Event
	want rdmacm.EventType
}

func (e *cmRefused) Error() string {
	if e.e.Err != nil {
		return fmt.Sprintf("%v: %v", e.e.Type, e.e.Err)
	}
	return fmt.Sprintf("%v instead of %v", e.e.Type, e.want)
}

func (e *cmRefused) Unwrap() error { return e.e.Err }

// openCM prepares RDMA-CM; meet connects the control.
func (s *session) openCM(ctx context.Context, source netip.Addr) (c *cmEnd, err error) {
	c = &cmEnd{s: s, gone: map[*rdmacm.ID]bool{}}
	if c.ch, err = rdmacm.CreateEventChannel(s.dev); err != nil {
		return nil, err
	}
	if s.o.Host == "" {
		c.local = netip.AddrPortFrom(source, uint16(s.o.Port))
		return c, nil
	}
	c.local = netip.AddrPortFrom(source, 0)
	network := "ip"
	if s.o.IPv6Addr {
		network = "ip6"
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, network, s.o.Host)
	if err != nil {
		return nil, err
	}
	c.remote = netip.AddrPortFrom(all[0].Unmap(), uint16(s.o.Port))
	return c, nil
}

// next waits for an event. Those of connections that have ended are noted.
func (c *cmEnd) next(ctx context.Context) (*rdmacm.Event, error) {
	for {
		e, err := c.ch.Get(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
		switch e.Type {
		case rdmacm.EventTimewaitExit:
			continue
		case rdmacm.EventDisconnected:
			c.gone[e.ID] = true
		}
		return e, nil
	}
}

// expect waits for an event of a type.
func (c *cmEnd) expect(ctx context.Context, want rdmacm.EventType) (*rdmacm.Event, error) {
	e, err := c.next(ctx)
	if err == nil && e.Type != want {
		err = &cmRefused{e, want}
	}
	return e, err
}

// resolve makes an ID that can connect to the server.
func (c *cmEnd) resolve(ctx context.Context, ps rdmacm.PortSpace) (*rdmacm.ID, error) {
	id, err := rdmacm.CreateID(c.ch, ps)
	if err != nil {
		return nil, err
	}
	if err = id.ResolveAddr(c.local, c.remote); err == nil {
		_, err = c.expect(ctx, rdmacm.EventAddrResolved)
	}
	if err == nil && c.s.o.TOS >= 0 {
		err = id.SetTypeOfService(uint8(c.s.o.TOS))
	}
	if err == nil {
		err = id.ResolveRoute()
	}
	if err == nil {
		_, err = c.expect(ctx, rdmacm.EventRouteResolved)
	}
	if err != nil {
		return nil, errors.Join(err, id.Close())
	}
	return id, nil
}

// connect asks the server for a connection. prepare gives the ID its queue pair.
func (c *cmEnd) connect(ctx context.Context, ps rdmacm.PortSpace, param rdmacm.ConnParam,
	prepare func(*rdmacm.ID) error) (*rdmacm.ID, *rdmacm.Event, error) {
	id, err := c.resolve(ctx, ps)
	if err != nil {
		return nil, nil, err
	}
	if err = prepare(id); err == nil {
		err = id.Connect(&param)
	}
	var e *rdmacm.Event
	if err == nil {
		e, err = c.expect(ctx, rdmacm.EventEstablished)
	}
	if err != nil {
		return nil, nil, errors.Join(err, id.Close())
	}
	return id, e, nil
}

// listen makes a listener on the RDMA-CM port.
func (c *cmEnd) listen(ps rdmacm.PortSpace, n int) (*rdmacm.ID, error) {
	l, err := rdmacm.CreateID(c.ch, ps)
	if err != nil {
		return nil, err
	}
	if err = l.BindAddr(c.local); err == nil {
		err = l.Listen(rdmacm.ListenLimits{Backlog: n})
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// param is what a connection of a test, or the control, is made with.
func (c *cmEnd) param(outReads int, access roce.Access) rdmacm.ConnParam {
	p := rdmacm.DefaultConnParam()
	p.FlowControl = false
	p.ResponderResources, p.InitiatorDepth = uint8(outReads), uint8(outReads)
	p.RetryCount, p.AckTimeout = uint8(c.s.o.RetryCount), ib.TimeoutCode(c.s.o.QPTimeout)
	p.Access = access
	return p
}

// meet connects the control.
func (c *cmEnd) meet(ctx context.Context) (err error) {
	k := &control{end: c, ctx: ctx}
	c.control = k
	if err := k.allocate(); err != nil {
		return err
	}
	if c.s.o.Host != "" {
		k.id, _, err = c.connect(ctx, rdmacm.PortSpaceTCP, c.param(0, 0), k.prepare)
		if err != nil {
			return fmt.Errorf("connect to %v by RDMA-CM: %w", c.remote, err)
		}
		return nil
	}
	l, err := c.listen(rdmacm.PortSpaceTCP, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	c.s.p.waiting()
	at := l.LocalAddr()
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(c.s.dev.Addrs()[0], at.Port())
	}
	c.local = netip.AddrPortFrom(c.local.Addr(), at.Port())
	fmt.Fprintf(c.s.env.Stderr, "%s: listening on %v\n", c.s.o.Test.Name(), at)
	if c.s.env.Listening != nil {
		c.s.env.Listening(at)
	}
	e, err := c.expect(ctx, rdmacm.EventConnectRequest)
	if err != nil {
		return err
	}
	k.id = e.ID
	if err := k.prepare(k.id); err != nil {
		return err
	}
	if c.s.o.CM {
		// One listener takes the other's place, which is why the QPs of the test
		// cannot be mistaken for a second control.
		if err := l.Close(); err != nil {
			return err
		}
		if c.tests, err = c.listen(c.portSpace(), c.s.o.QPs); err != nil {
			return err
		}
	}
	p := c.param(0, 0)
	if err := k.id.Accept(&p); err != nil {
		return err
	}
	_, err = c.expect(ctx, rdmacm.EventEstablished)
	return err
}

// hangUp ends the connections of a test that went well: the server begins, the
// client waits for it, as the originals do. The control follows.
func (c *cmEnd) hangUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cmLinger)
	defer cancel()
	await := func(ids []*rdmacm.ID) {
		for _, id := range ids {
			for !c.gone[id] {
				if _, err := c.next(ctx); err != nil {
					return // the peer's own business
				}
			}
		}
	}
	if c.s.o.Transport != ib.UD {
		if c.s.o.Host == "" {
			for _, id := range c.ids {
				if err := id.Disconnect(nil); err != nil {
					return err
				}
			}
		}
		await(c.ids)
	}
	if err := c.control.id.Disconnect(nil); err != nil {
		return err
	}
	await([]*rdmacm.ID{c.control.id})
	return nil
}

// free gives everything back, as far as it was made.
func (c *cmEnd) free() error {
	var errs []error
	for _, id := range c.ids {
		errs = append(errs, id.Close())
	}
	if c.control != nil {
		errs = append(errs, c.control.free())
	}
	return errors.Join(append(errs, c.ch.Close())...)
}
