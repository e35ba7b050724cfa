package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/rdmacm"
)

const (
	cmatosePort    = 7471
	cmatoseRetries = 5
)

// cmatose is ucmatose: many connections, on each of which the server sends a
// number of messages and gets as many back.
type cmatose struct {
	nodeOptions
	ps         rdmacm.PortSpace
	migrate    bool
	ackTimeout int // code; 0: the default
}

func newCmatose() program {
	return &cmatose{nodeOptions: defaultNodes(cmatosePort), ps: rdmacm.PortSpaceTCP}
}

func (p *cmatose) usage() []string {
	return []string{
		"[-b bind_address] [-c connections] [-C message_count] [-S message_size] [-p port_number] [-m]",
		"-s server_address [-b bind_address] [-c connections] [-C message_count] [-S message_size] [-p port_number] [-m]",
	}
}

func (p *cmatose) options() []getopt.Option {
	return append(append(p.nodeOptions.options(), p.clientOptions()...),
		getopt.Option{Short: 'p', Arg: "port", Help: "RDMA-CM port (default 7471)", Set: getopt.Int(&p.port, 0, 65535)},
		getopt.Option{Short: 'P', Arg: "space", Help: "port space: tcp (default) or ib", Set: p.setPortSpace},
		getopt.Option{Short: 'm', Help: "move the connections to another event channel", Set: getopt.Bool(&p.migrate)},
		getopt.Option{Short: 'a', Arg: "code", Help: "ACK timeout: 4.096 us * 2^code", Set: getopt.Int(&p.ackTimeout, 0, 31)},
	)
}

func (p *cmatose) setPortSpace(s string) error {
	switch {
	case strings.HasPrefix(strings.ToLower(s), "ib"):
		p.ps = rdmacm.PortSpaceIB
	case strings.HasPrefix(strings.ToLower(s), "tcp"):
		p.ps = rdmacm.PortSpaceTCP
	default:
		return fmt.Errorf("%q is neither tcp nor ib", s)
	}
	return nil
}

// cmatoseRun is one run.
type cmatoseRun struct {
	*side
	p     *cmatose
	nodes []*node
	left  int // connections that are not up yet
	up    int // connections that are
}

func (p *cmatose) run(ctx context.Context, env *tool.Env) (err error) {
	s, local, peer, err := p.open(ctx, "cmatose", env, p.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := &cmatoseRun{side: s, p: p, left: p.conns}
	if peer.IsValid() {
		err = r.client(ctx, local, on(peer, p.port))
	} else {
		err = r.server(ctx, on(local, p.port))
	}
	return finish(s, r.nodes, err)
}

func (r *cmatoseRun) server(ctx context.Context, local netip.AddrPort) (err error) {
	r.printf("cmatose: starting server\n")
	l, err := r.listen(r.p.ps, local, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := r.connects(ctx); err != nil {
		return err
	}
	if r.p.count > 0 {
		r.printf("initiating data transfers\n")
		if err := each(r.nodes, (*node).postSends); err != nil {
			return err
		}
		r.printf("completing sends\n")
		if err := each(r.nodes, func(n *node) error { return n.waitSends(ctx) }); err != nil {
			return err
		}
		r.printf("receiving data transfers\n")
		if err := each(r.nodes, func(n *node) error { return n.waitRecvs(ctx) }); err != nil {
			return err
		}
		r.printf("data transfers complete\n")
	}
	if err := r.migrate(l); err != nil {
		return err
	}
	r.printf("cmatose: disconnecting\n")
	if err := each(r.nodes, func(n *node) error { return n.id.Disconnect(nil) }); err != nil {
		return err
	}
	err = r.disconnects(ctx)
	r.printf("disconnected\n")
	return err
}

func (r *cmatoseRun) client(ctx context.Context, from netip.Addr, to netip.AddrPort) error {
	r.printf("cmatose: starting client\n")
	for range r.p.conns {
		id, err := rdmacm.CreateID(r.ch, r.p.ps)
		if err != nil {
			return err
		}
		n := &node{o: &r.p.nodeOptions, id: id}
		id.Context = n
		r.nodes = append(r.nodes, n)
	}
	r.printf("cmatose: connecting\n")
	for _, n := range r.nodes {
		if err := n.id.ResolveAddr(on(from, 0), to); err != nil {
			return err
		}
	}
	if err := r.connects(ctx); err != nil {
		return err
	}
	if r.p.count > 0 {
		r.printf("receiving data transfers\n")
		if err := each(r.nodes, func(n *node) error { return n.waitRecvs(ctx) }); err != nil {
			return err
		}
		r.printf("sending replies\n")
		if err := each(r.nodes, (*node).postSends); err != nil {
			return err
		}
		r.printf("data transfers complete\n")
	}
	if err := r.migrate(nil); err != nil {
		return err
	}
	return r.disconnects(ctx)
}

// connects handles events until all connections are up.
func (r *cmatoseRun) connects(ctx context.Context) error {
	for r.left > 0 {
		if err := r.event(ctx); err != nil {
			return err
		}
	}
	return nil
}

// disconnects handles events until all connections are down.
func (r *cmatoseRun) disconnects(ctx context.Context) error {
	for r.up > 0 {
		if err := r.event(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *cmatoseRun) event(ctx context.Context) error {
	e, err := next(ctx, r.ch)
	if err != nil {
		return err
	}
	n, _ := e.ID.Context.(*node)
	switch e.Type {
	case rdmacm.EventAddrResolved:
		if r.p.tos >= 0 {
			if err := e.ID.SetTypeOfService(uint8(r.p.tos)); err != nil {
				return err
			}
		}
		return e.ID.ResolveRoute()
	case rdmacm.EventRouteResolved:
		return r.connect(n)
	case rdmacm.EventConnectRequest:
		return r.accept(e.ID)
	case rdmacm.EventEstablished:
		n.up = true
		r.left--
		r.up++
	case rdmacm.EventDisconnected:
		r.up--
		return e.ID.Disconnect(nil)
	case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventConnectError, rdmacm.EventUnreachable, rdmacm.EventRejected:
		r.printf("cmatose: event: %v, error: %d\n", e.Type, status(e))
		r.left--
		return &eventError{e, rdmacm.EventEstablished}
	}
	return nil
}

func (r *cmatoseRun) connect(n *node) error {
	if err := n.prepare(r.side); err != nil {
		return err
	}
	if err := n.postRecvs(); err != nil {
		return err
	}
	return n.id.Connect(&rdmacm.ConnParam{
		ResponderResources: 1, InitiatorDepth: 1, RetryCount: cmatoseRetries, AckTimeout: ib.TimeoutCode(r.p.ackTimeout),
	})
}

func (r *cmatoseRun) accept(id *rdmacm.ID) error {
	if len(r.nodes) == r.p.conns {
		r.printf("cmatose: failing connection request\n")
		return errors.Join(id.Reject(nil), id.Close())
	}
	n := &node{o: &r.p.nodeOptions, id: id}
	id.Context = n
	r.nodes = append(r.nodes, n)
	err := n.prepare(r.side)
	if err == nil {
		err = n.postRecvs()
	}
	if err != nil {
		r.printf("cmatose: failing connection request\n")
		return errors.Join(err, id.Reject(nil))
	}
	return id.Accept(nil)
}

// migrate is -m.
func (r *cmatoseRun) migrate(l *rdmacm.ID) error {
	if !r.p.migrate {
		return nil
	}
	r.printf("migrating to new event channel\n")
	ch, err := rdmacm.CreateEventChannel(r.dev)
	if err != nil {
		return err
	}
	old := r.ch
	r.ch = ch
	if l != nil {
		if err := l.Migrate(ch); err != nil {
			return err
		}
	}
	for _, n := range r.nodes {
		if err := n.id.Migrate(ch); err != nil {
			return err
		}
	}
	return old.Close()
}
