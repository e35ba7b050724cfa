package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/rdmacm"
)

// mckeyPause is how many seconds mckey waits after joining: switches and hosts
// have to learn of it.
const mckeyPause = 3

// mckey joins a multicast group, and sends to it or receives from it.
type mckey struct {
	nodeOptions
	group    string
	sender   bool
	sendOnly bool
	pause    float64 // seconds
}

func newMckey() program { return &mckey{nodeOptions: defaultNodes(0), pause: mckeyPause} }

func (p *mckey) usage() []string {
	return []string{"-m multicast_address [-s] [-b bind_address] [-c connections] [-C message_count] [-S message_size] [-o]"}
}

func (p *mckey) options() []getopt.Option {
	return append(p.nodeOptions.options(),
		getopt.Option{Short: 'm', Arg: "group", Help: "address of the group", Set: getopt.String(&p.group)},
		getopt.Option{Short: 'M', Arg: "group", Set: getopt.Unsupported("unmapped addresses are InfiniBand's")},
		getopt.Option{Short: 's', Help: "send; otherwise receive", Set: getopt.Bool(&p.sender)},
		getopt.Option{Short: 'o', Help: "join for sending only", Set: getopt.Bool(&p.sendOnly)},
		getopt.Option{Short: 'l', Set: getopt.Unsupported("the kernel's loopback of multicast cannot be left out; nor can rdma_rxe's")},
		getopt.Option{Short: 'p', Arg: "number", Help: "port space: 0x0111", Set: setPortSpaceNumber},
		getopt.Option{Long: "pause", Arg: "s", Help: "seconds between joining and sending (default 3)", Set: getopt.Float(&p.pause)},
	)
}

func (p *mckey) check() error {
	if p.group == "" {
		return &getopt.Error{Option: "-m", Reason: "the group is needed"}
	}
	return p.nodeOptions.check()
}

// mckeyRun is one run.
type mckeyRun struct {
	*side
	p     *mckey
	group netip.Addr
	nodes []*node
	left  int // groups to join
}

func (p *mckey) run(ctx context.Context, env *tool.Env) (err error) {
	s, local, group, err := p.open(ctx, "mckey", env, p.group)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := &mckeyRun{side: s, p: p, group: group, left: p.conns}
	if err = p.checkSize(s); err == nil {
		err = r.do(ctx, local)
	}
	return finish(s, r.nodes, err)
}

func (r *mckeyRun) do(ctx context.Context, local netip.Addr) (err error) {
	role := "server"
	if r.p.sender {
		role = "client"
	}
	r.printf("mckey: starting %s\n", role)
	r.printf("mckey: joining\n")
	for range r.p.conns {
		id, err := rdmacm.CreateID(r.ch, rdmacm.PortSpaceUDP)
		if err != nil {
			return err
		}
		n := &node{o: &r.p.nodeOptions, id: id}
		id.Context = n
		r.nodes = append(r.nodes, n)
		if err := id.ResolveAddr(on(local, 0), on(r.group, 0)); err != nil {
			return err
		}
	}
	for r.left > 0 {
		e, err := next(ctx, r.ch)
		if err == nil {
			err = r.event(e)
		}
		if err != nil {
			return err
		}
	}
	if r.env.Listening != nil {
		r.env.Listening(on(r.dev.Addrs()[0], 0))
	}
	r.remark("listening on %v", r.group)
	select {
	case <-time.After(time.Duration(r.p.pause * float64(time.Second))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.p.count > 0 {
		if r.p.sender {
			r.printf("initiating data transfers\n")
			if err := each(r.nodes, (*node).postSends); err != nil {
				return err
			}
			err = each(r.nodes, func(n *node) error { return n.waitSends(ctx) })
		} else {
			r.printf("receiving data transfers\n")
			err = each(r.nodes, func(n *node) error { return n.waitRecvs(ctx) })
		}
		if err != nil {
			return err
		}
		r.printf("data transfers complete\n")
	}
	if r.p.sendOnly {
		return nil
	}
	return each(r.nodes, func(n *node) error { return n.id.LeaveMulticast(r.group) })
}

func (r *mckeyRun) event(e *rdmacm.Event) (err error) {
	n, _ := e.ID.Context.(*node)
	switch e.Type {
	case rdmacm.EventAddrResolved:
		if err := n.prepare(r.side); err != nil {
			return err
		}
		if !r.p.sender {
			if err := n.postRecvs(); err != nil {
				return err
			}
		}
		if r.p.sendOnly {
			return n.id.JoinMulticastSendOnly(r.group)
		}
		return n.id.JoinMulticast(r.group)
	case rdmacm.EventMulticastJoin:
		r.printf("mckey: joined dgid: %v mlid 0x0 sl 0\n", netip.AddrFrom16(e.UD.AV.DGID))
		n.qpn, n.qkey = e.UD.QPN, e.UD.QKey
		if n.ah, err = r.pd.CreateAH(e.UD.AV); err != nil {
			return err
		}
		n.up = true
		r.left--
	case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventMulticastError:
		r.printf("mckey: event: %v, error: %d\n", e.Type, status(e))
		return &eventError{e, rdmacm.EventMulticastJoin}
	}
	return nil
}
