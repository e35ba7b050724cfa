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
		getopt.Option{Short: 'a', Arg: "code", Help: "ACK timeout: 4.096 us * 2^code",
			Set: getopt.Int(&p.ackTimeout, 0, 31)},
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
	nodeRun
	p  *cmatose
	up int // connections that are
}

func (p *cmatose) run(ctx context.Context, env *tool.Env) (err error) {
	nodes, local, peer, err := p.open(ctx, "cmatose", env, p.server)
	if err != nil {
		return err
	}
	r := &cmatoseRun{nodeRun: nodes, p: p}
	defer func() { err = errors.Join(err, r.close()) }()
	if peer.IsValid() {
		err = r.client(ctx, local, on(peer, p.port))
	} else {
		err = r.server(ctx, on(local, p.port))
	}
	return r.finish(err)
}

func (r *cmatoseRun) server(ctx context.Context, local netip.AddrPort) (err error) {
	r.printf("cmatose: starting server\n")
	l, err := r.listen(r.p.ps, local, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := r.until(ctx, &r.left, r.event); err != nil {
		return err
	}
	err = r.transfer(ctx,
		phase{"initiating data transfers", (*node).postSends},
		phase{"completing sends", (*node).waitSends},
		phase{"receiving data transfers", (*node).waitRecvs})
	if err != nil {
		return err
	}
	if err := r.migrate(l); err != nil {
		return err
	}
	r.printf("cmatose: disconnecting\n")
	if err := r.each(func(n *node) error { return n.id.Disconnect(nil) }); err != nil {
		return err
	}
	err = r.until(ctx, &r.up, r.event)
	r.printf("disconnected\n")
	return err
}

func (r *cmatoseRun) client(ctx context.Context, from netip.Addr, to netip.AddrPort) error {
	r.printf("cmatose: starting client\n")
	r.printf("cmatose: connecting\n")
	if err := r.resolveAll(r.p.ps, from, to); err != nil {
		return err
	}
	if err := r.until(ctx, &r.left, r.event); err != nil {
		return err
	}
	err := r.transfer(ctx,
		phase{"receiving data transfers", (*node).waitRecvs},
		phase{"sending replies", (*node).postSends})
	if err != nil {
		return err
	}
	if err := r.migrate(nil); err != nil {
		return err
	}
	return r.until(ctx, &r.up, r.event)
}

func (r *cmatoseRun) event(e *rdmacm.Event) error {
	n, _ := e.ID.Context.(*node)
	switch e.Type {
	case rdmacm.EventAddrResolved:
		return r.resolved(e.ID)
	case rdmacm.EventRouteResolved:
		if err := n.ready(r.side); err != nil {
			return err
		}
		return n.id.Connect(&rdmacm.ConnParam{
			ResponderResources: 1, InitiatorDepth: 1, RetryCount: cmatoseRetries,
			AckTimeout: ib.TimeoutCode(r.p.ackTimeout),
		})
	case rdmacm.EventConnectRequest:
		_, err := r.accept(e.ID, nil)
		return err
	case rdmacm.EventEstablished:
		r.left--
		r.up++
	case rdmacm.EventDisconnected:
		r.up--
		return e.ID.Disconnect(nil)
	case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventConnectError, rdmacm.EventUnreachable,
		rdmacm.EventRejected:
		return r.failed(e, rdmacm.EventEstablished)
	}
	return nil
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
	if err := r.each(func(n *node) error { return n.id.Migrate(ch) }); err != nil {
		return err
	}
	return old.Close()
}
