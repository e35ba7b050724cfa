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
		getopt.Option{Long: "port", Arg: "port", Help: "RDMA-CM port (default 7174)",
			Set: getopt.Int(&p.port, 0, 65535)},
	)
}

// udaddyRun is one run.
type udaddyRun struct {
	nodeRun
	p *udaddy
}

func (p *udaddy) run(ctx context.Context, env *tool.Env) (err error) {
	nodes, local, peer, err := p.open(ctx, "udaddy", env, p.server)
	if err != nil {
		return err
	}
	r := &udaddyRun{nodes, p}
	defer func() { err = errors.Join(err, r.close()) }()
	if err = p.checkSize(r.side); err == nil {
		if peer.IsValid() {
			err = r.client(ctx, local, on(peer, p.port))
		} else {
			err = r.server(ctx, on(local, p.port))
		}
	}
	return r.finish(err)
}

func (r *udaddyRun) server(ctx context.Context, local netip.AddrPort) (err error) {
	r.printf("udaddy: starting server\n")
	l, err := r.listen(rdmacm.PortSpaceUDP, local, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := r.until(ctx, &r.left, r.event); err != nil {
		return err
	}
	return r.transfer(ctx,
		phase{"receiving data transfers", func(n *node, ctx context.Context) error { return r.receive(ctx, n) }},
		phase{"sending replies", (*node).postSends},
		phase{"", (*node).waitSends})
}

func (r *udaddyRun) client(ctx context.Context, from netip.Addr, to netip.AddrPort) error {
	r.printf("udaddy: starting client\n")
	r.printf("udaddy: connecting\n")
	if err := r.resolveAll(rdmacm.PortSpaceUDP, from, to); err != nil {
		return err
	}
	if err := r.until(ctx, &r.left, r.event); err != nil {
		return err
	}
	return r.transfer(ctx,
		phase{"initiating data transfers", (*node).postSends},
		phase{"receiving data transfers", (*node).waitRecvs})
}

func (r *udaddyRun) event(e *rdmacm.Event) (err error) {
	n, _ := e.ID.Context.(*node)
	switch e.Type {
	case rdmacm.EventAddrResolved:
		return r.resolved(e.ID)
	case rdmacm.EventRouteResolved:
		if err := n.ready(r.side); err != nil {
			return err
		}
		return e.ID.Connect(&rdmacm.ConnParam{})
	case rdmacm.EventConnectRequest:
		took, err := r.accept(e.ID, &rdmacm.ConnParam{})
		if took && err == nil {
			r.left--
		}
		return err
	case rdmacm.EventEstablished:
		if err := n.sendTo(r.pd, e.UD); err != nil {
			return err
		}
		r.left--
	case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventConnectError, rdmacm.EventUnreachable,
		rdmacm.EventRejected:
		return r.failed(e, rdmacm.EventEstablished)
	}
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
