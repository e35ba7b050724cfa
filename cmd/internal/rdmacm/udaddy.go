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
	"github.com/goroce/goroce/roce/verbs"
)

const udaddyPort = 7174

// udaddy connects datagram queue pairs: the client sends a number of messages,
// and the server answers with as many.
type udaddy struct{ nodeOptions }

func newUdaddy() program { return &udaddy{defaultNodes(udaddyPort)} }

func (p *udaddy) usage() []string {
	return []string{
		"[-b bind_address] [-c connections] [-C message_count] [-S message_size]",
		"-s server_address [-b bind_address] [-c connections] [-C message_count] [-S message_size]",
	}
}

func (p *udaddy) options() []getopt.Option {
	return append(append(p.nodeOptions.options(), p.clientOptions()...),
		getopt.Option{Short: 'p', Arg: "number", Help: "port space: 0x0111", Set: setPortSpaceNumber},
		getopt.Option{Short: 'P', Arg: "space", Help: "port space: udp", Set: func(s string) error {
			if !strings.HasPrefix(strings.ToLower(s), "udp") {
				return fmt.Errorf("%q: only port space udp is supported", s)
			}
			return nil
		}},
		getopt.Option{Long: "port", Arg: "port", Help: "RDMA-CM port (default 7174)", Set: getopt.Int(&p.port, 0, 65535)},
	)
}

// udaddyRun is one run.
type udaddyRun struct {
	*side
	p     *udaddy
	nodes []*node
	left  int // associations that do not exist yet
}

func (p *udaddy) run(ctx context.Context, env *tool.Env) (err error) {
	s, local, peer, err := p.open(ctx, "udaddy", env, p.server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := &udaddyRun{side: s, p: p, left: p.conns}
	if err = p.checkSize(s); err == nil {
		if peer.IsValid() {
			err = r.client(ctx, local, on(peer, p.port))
		} else {
			err = r.server(ctx, on(local, p.port))
		}
	}
	return finish(s, r.nodes, err)
}

func (r *udaddyRun) server(ctx context.Context, local netip.AddrPort) (err error) {
	r.printf("udaddy: starting server\n")
	l, err := r.listen(rdmacm.PortSpaceUDP, local, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := r.connects(ctx); err != nil || r.p.count == 0 {
		return err
	}
	r.printf("receiving data transfers\n")
	if err := each(r.nodes, func(n *node) error { return r.receive(ctx, n) }); err != nil {
		return err
	}
	r.printf("sending replies\n")
	if err := each(r.nodes, (*node).postSends); err != nil {
		return err
	}
	if err := each(r.nodes, func(n *node) error { return n.waitSends(ctx) }); err != nil {
		return err
	}
	r.printf("data transfers complete\n")
	return nil
}

func (r *udaddyRun) client(ctx context.Context, from netip.Addr, to netip.AddrPort) error {
	r.printf("udaddy: starting client\n")
	r.printf("udaddy: connecting\n")
	for range r.p.conns {
		id, err := rdmacm.CreateID(r.ch, rdmacm.PortSpaceUDP)
		if err != nil {
			return err
		}
		n := &node{o: &r.p.nodeOptions, id: id}
		id.Context = n
		r.nodes = append(r.nodes, n)
		if err := id.ResolveAddr(on(from, 0), to); err != nil {
			return err
		}
	}
	if err := r.connects(ctx); err != nil || r.p.count == 0 {
		return err
	}
	r.printf("initiating data transfers\n")
	if err := each(r.nodes, (*node).postSends); err != nil {
		return err
	}
	r.printf("receiving data transfers\n")
	if err := each(r.nodes, func(n *node) error { return n.waitRecvs(ctx) }); err != nil {
		return err
	}
	r.printf("data transfers complete\n")
	return nil
}

func (r *udaddyRun) connects(ctx context.Context) error {
	for r.left > 0 {
		e, err := next(ctx, r.ch)
		if err == nil {
			err = r.event(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *udaddyRun) event(e *rdmacm.Event) (err error) {
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
		if err := n.prepare(r.side); err != nil {
			return err
		}
		if err := n.postRecvs(); err != nil {
			return err
		}
		return e.ID.Connect(&rdmacm.ConnParam{})
	case rdmacm.EventConnectRequest:
		return r.accept(e.ID)
	case rdmacm.EventEstablished:
		n.qpn, n.qkey = e.UD.QPN, e.UD.QKey
		if n.ah, err = r.pd.CreateAH(e.UD.AV); err != nil {
			return err
		}
		n.up = true
		r.left--
	case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventConnectError, rdmacm.EventUnreachable, rdmacm.EventRejected:
		r.printf("udaddy: event: %v, error: %d\n", e.Type, status(e))
		r.left--
		return &eventError{e, rdmacm.EventEstablished}
	}
	return nil
}

func (r *udaddyRun) accept(id *rdmacm.ID) error {
	if len(r.nodes) == r.p.conns {
		r.printf("udaddy: failing connection request\n")
		return errors.Join(id.Reject(nil), id.Close())
	}
	n := &node{o: &r.p.nodeOptions, id: id}
	r.nodes = append(r.nodes, n)
	err := n.prepare(r.side)
	if err == nil {
		err = n.postRecvs()
	}
	if err != nil {
		r.printf("udaddy: failing connection request\n")
		return errors.Join(err, id.Reject(nil))
	}
	if err := id.Accept(&rdmacm.ConnParam{}); err != nil {
		return err
	}
	n.up = true
	r.left--
	return nil
}

// receive waits for the messages of a client. The first one says how to reach
// it: its queue pair is in the immediate value, its address in the GRH.
func (r *udaddyRun) receive(ctx context.Context, n *node) error {
	return complete(ctx, n.rcq, n.o.count, func(wc *verbs.WC) (err error) {
		if n.ah != nil {
			return nil
		}
		var g ib.GRH
		if wc.Flags&verbs.WCWithGRH == 0 || !g.Decode((*[ib.GRHBytes]byte)(n.mr.Bytes())) {
			return errors.New("failed to create reply AH: the message came without a GRH")
		}
		n.qpn, n.qkey = ib.QPN(wc.Imm), rdmacm.UDQKey
		n.ah, err = r.pd.CreateAHTo(ib.GIDFromAddr(g.Src))
		return err
	})
}
