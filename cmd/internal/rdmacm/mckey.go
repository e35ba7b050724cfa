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

// mckeyPause is how many seconds mckey waits after joining: switches and hosts have to learn of it.
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
	return []string{
		"-m multicast_address [-s] [-b bind_address] [-c connections] [-C message_count] [-S message_size] [-o]",
	}
}

func (p *mckey) options() []getopt.Option {
	return append(p.nodeOptions.options(),
		getopt.Option{Short: 'm', Arg: "group", Help: "address of the group", Set: getopt.String(&p.group)},
		getopt.Option{Short: 'M', Arg: "group", Set: getopt.Unsupported("unmapped addresses are InfiniBand's")},
		getopt.Option{Short: 's', Help: "send; otherwise receive", Set: getopt.Bool(&p.sender)},
		getopt.Option{Short: 'o', Help: "join for sending only", Set: getopt.Bool(&p.sendOnly)},
		getopt.Option{Short: 'l',
			Set: getopt.Unsupported("the kernel's loopback of multicast cannot be left out; nor can rdma_rxe's")},
		getopt.Option{Short: 'p', Arg: "number", Help: "port space: 0x0111", Set: setPortSpaceNumber},
		getopt.Option{Long: "pause", Arg: "s", Help: "seconds between joining and sending (default 3)",
			Set: getopt.Float(&p.pause)},
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
	nodeRun
	p     *mckey
	group netip.Addr
}

func (p *mckey) run(ctx context.Context, env *tool.Env) (err error) {
	nodes, local, group, err := p.open(ctx, "mckey", env, p.group)
	if err != nil {
		return err
	}
	r := &mckeyRun{nodes, p, group}
	defer func() { err = errors.Join(err, r.close()) }()
	if !group.IsMulticast() { // there may be no way to it, which would be the error
		return &getopt.Error{Option: "-m", Reason: group.String() + " is not a multicast address"}
	}
	if err = p.checkSize(r.side); err == nil {
		err = r.do(ctx, local)
	}
	return r.finish(err)
}

func (r *mckeyRun) do(ctx context.Context, local netip.Addr) (err error) {
	role := "server"
	if r.p.sender {
		role = "client"
	}
	r.printf("mckey: starting %s\n", role)
	r.printf("mckey: joining\n")
	if err := r.resolveAll(rdmacm.PortSpaceUDP, local, on(r.group, 0)); err != nil {
		return err
	}
	if err := r.until(ctx, &r.left, r.event); err != nil {
		return err
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
	phases := []phase{{"receiving data transfers", (*node).waitRecvs}}
	if r.p.sender {
		phases = []phase{{"initiating data transfers", (*node).postSends}, {"", (*node).waitSends}}
	}
	if err := r.transfer(ctx, phases...); err != nil || r.p.sendOnly {
		return err
	}
	return r.each(func(n *node) error { return n.id.LeaveMulticast(r.group) })
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
		if err := n.sendTo(r.pd, e.UD); err != nil {
			return err
		}
		r.left--
	case rdmacm.EventAddrError, rdmacm.EventRouteError, rdmacm.EventMulticastError:
		return r.failed(e, rdmacm.EventMulticastJoin)
	}
	return nil
}
