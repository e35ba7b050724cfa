package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// nodeOptions are what ucmatose, udaddy and mckey have in common: a number of
// connections, each of which carries a number of messages.
type nodeOptions struct {
	dev    tool.DeviceOptions
	server string // address; empty: this is the server
	bind   string
	conns  int
	count  int // messages for each connection
	size   int // bytes of a message
	tos    int // -1: not set
	port   int
}

func defaultNodes(port int) nodeOptions {
	return nodeOptions{conns: 1, count: 10, size: 100, tos: -1, port: port}
}

func (o *nodeOptions) device() *tool.DeviceOptions { return &o.dev }

func (o *nodeOptions) check() error {
	if o.size == 0 {
		o.count = 0
	}
	return nil
}

func (o *nodeOptions) options() []getopt.Option {
	return []getopt.Option{
		{Short: 'b', Arg: "addr", Help: "local address", Set: getopt.String(&o.bind)},
		{Short: 'c', Arg: "n", Help: "number of connections (default 1)", Set: getopt.Int(&o.conns, 1, maxConnections)},
		{Short: 'C', Arg: "n", Help: "messages on each of them, in each direction (default 10)",
			Set: getopt.Int(&o.count, 0, maxMessages)},
		{Short: 'S', Arg: "bytes", Help: "size of a message (default 100)",
			Set: getopt.Int(&o.size, 0, maxMessageSize)},
	}
}

// clientOptions are those of the tools that have client and server.
func (o *nodeOptions) clientOptions() []getopt.Option {
	return []getopt.Option{
		{Short: 's', Arg: "addr", Help: "address of the server; without it, this is the server",
			Set: getopt.String(&o.server)},
		{Short: 't', Arg: "tos", Help: "type of service", Set: getopt.Int(&o.tos, 0, 255)},
		{Short: 'f', Arg: "format", Help: "of addresses: name, ip or ipv6", Set: setFormat},
	}
}

func setFormat(s string) error {
	switch f := strings.ToLower(s); {
	case strings.HasPrefix(f, "ip"), strings.HasPrefix(f, "name"):
		return nil
	case strings.HasPrefix(f, "gid"):
		return errors.New("not supported: gid names InfiniBand addresses; on RoCE they are IP addresses")
	}
	return fmt.Errorf("%q is not one of name, ip and ipv6", s)
}

// setPortSpaceNumber is -p of udaddy and mckey.
func setPortSpaceNumber(s string) error {
	n, err := strconv.ParseUint(s, 0, 16)
	if err != nil || rdmacm.PortSpace(n) != rdmacm.PortSpaceUDP {
		return fmt.Errorf("%q: only port space UDP (%#x) is supported", s, uint16(rdmacm.PortSpaceUDP))
	}
	return nil
}

// open opens the device and resolves the addresses.
func (o *nodeOptions) open(
	ctx context.Context, name string, env *tool.Env, remote string,
) (r nodeRun, local, peer netip.Addr, err error) {
	if local, err = lookup(ctx, o.bind); err != nil {
		return r, local, peer, err
	}
	if peer, err = lookup(ctx, remote); err != nil {
		return r, local, peer, err
	}
	s, err := open(name, env, &o.dev, local, peer)
	return nodeRun{side: s, o: o, left: o.conns}, local, peer, err
}

// checkSize refuses messages that are more than a packet, for datagrams.
func (o *nodeOptions) checkSize(s *side) error {
	if mtu := s.dev.Port().ActiveMTU.Bytes(); o.count > 0 && o.size > mtu {
		return fmt.Errorf("message_size %d is larger than active mtu %d", o.size, mtu)
	}
	return nil
}

// node is one connection or association.
type node struct {
	o        *nodeOptions
	id       *rdmacm.ID
	scq, rcq *verbs.CQ
	mr       *verbs.MR
	ah       *verbs.AH // datagrams
	qpn      ib.QPN
	qkey     ib.QKey
}

// prepare makes the queue pair and the memory.
func (n *node) prepare(s *side) (err error) {
	depth := max(n.o.count, 1)
	if n.scq, err = s.dev.CreateCQ(depth, nil); err != nil {
		return err
	}
	if n.rcq, err = s.dev.CreateCQ(depth, nil); err != nil {
		return err
	}
	_, err = n.id.CreateQP(s.pd, verbs.QPInitAttr{SendCQ: n.scq, RecvCQ: n.rcq, SigAll: true, Caps: verbs.QPCaps{
		MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1,
	}})
	if err != nil {
		return err
	}
	n.mr, err = s.pd.RegisterMR(make([]byte, max(2*n.message(), 1)), verbs.LocalWrite, nil)
	return err
}

// head is how much of the buffer is in front of a message.
func (n *node) head() int {
	if n.id.PortSpace() == rdmacm.PortSpaceUDP {
		return ib.GRHBytes
	}
	return 0
}

// message is how much of the buffer a message takes.
func (n *node) message() int { return n.o.size + n.head() }

// postRecvs posts all receives. The head of the first message is read when it has come, so that one
// has the first half of the buffer for itself; nobody reads what comes after it, into the second.
func (n *node) postRecvs() error {
	at := 0
	for range n.o.count {
		if err := n.id.QP().
			PostRecv(&verbs.RecvWR{ID: wrRecv, SGList: []verbs.SGE{n.mr.SGE(at, n.message())}}); err != nil {
			return fmt.Errorf("failed to post receives: %w", err)
		}
		at = n.message()
	}
	return nil
}

// ready is prepare and postRecvs.
func (n *node) ready(s *side) error {
	if err := n.prepare(s); err != nil {
		return err
	}
	return n.postRecvs()
}

// postSends sends all messages of a node. The head is a GRH, for receiving.
func (n *node) postSends(context.Context) error {
	wr := verbs.SendWR{ID: wrSend, Opcode: verbs.WRSend, SGList: []verbs.SGE{n.mr.SGE(0, n.o.size)}}
	if n.ah != nil {
		wr.Opcode, wr.Imm = verbs.WRSendImm, uint32(n.id.QP().Num())
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = n.ah, n.qpn, n.qkey
	}
	for range n.o.count {
		if err := n.id.QP().PostSend(&wr); err != nil {
			return fmt.Errorf("failed to post sends: %w", err)
		}
	}
	return nil
}

func (n *node) waitSends(ctx context.Context) error { return complete(ctx, n.scq, n.o.count, nil) }
func (n *node) waitRecvs(ctx context.Context) error { return complete(ctx, n.rcq, n.o.count, nil) }

// sendTo notes where datagrams go.
func (n *node) sendTo(pd *verbs.PD, to rdmacm.UDParam) (err error) {
	n.qpn, n.qkey = to.QPN, to.QKey
	n.ah, err = pd.CreateAH(to.AV)
	return err
}

// free gives everything back, as far as it was made.
func (n *node) free() error {
	var errs []error
	if n.id != nil {
		errs = append(errs, n.id.Close()) // with the queue pair
	}
	if n.ah != nil {
		errs = append(errs, n.ah.Close())
	}
	for _, cq := range []*verbs.CQ{n.scq, n.rcq} {
		if cq != nil {
			errs = append(errs, cq.Close())
		}
	}
	if n.mr != nil {
		errs = append(errs, n.mr.Close())
	}
	return errors.Join(errs...)
}

// nodeRun is one run.
type nodeRun struct {
	*side
	o     *nodeOptions
	nodes []*node
	left  int // those that are not up yet
}

// add makes the node of an ID.
func (r *nodeRun) add(id *rdmacm.ID) *node {
	n := &node{o: r.o, id: id}
	id.Context = n
	r.nodes = append(r.nodes, n)
	return n
}

// resolveAll makes all nodes and has them find their address.
func (r *nodeRun) resolveAll(ps rdmacm.PortSpace, from netip.Addr, to netip.AddrPort) error {
	for range r.o.conns {
		id, err := rdmacm.CreateID(r.ch, ps)
		if err != nil {
			return err
		}
		r.add(id)
	}
	return r.each(func(n *node) error { return n.id.ResolveAddr(on(from, 0), to) })
}

// until handles events as long as there are some to come.
func (r *nodeRun) until(ctx context.Context, count *int, event func(*rdmacm.Event) error) error {
	for *count > 0 {
		e, err := next(ctx, r.ch)
		if err == nil {
			err = event(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resolved goes on from an address to the route.
func (r *nodeRun) resolved(id *rdmacm.ID) error {
	if r.o.tos >= 0 {
		if err := id.SetTypeOfService(uint8(r.o.tos)); err != nil {
			return err
		}
	}
	return id.ResolveRoute()
}

// failed says that something else happened than what was waited for.
func (r *nodeRun) failed(e *rdmacm.Event, want rdmacm.EventType) error {
	r.printf("%s: event: %v, error: %d\n", r.name, e.Type, status(e))
	return &eventError{e, want}
}

// accept makes the node of a request, if there is to be one more, which took says.
func (r *nodeRun) accept(id *rdmacm.ID, param *rdmacm.ConnParam) (took bool, err error) {
	if len(r.nodes) == r.o.conns {
		r.printf("%s: failing connection request\n", r.name)
		return false, errors.Join(id.Reject(nil), id.Close())
	}
	n := r.add(id)
	if err := n.ready(r.side); err != nil {
		r.printf("%s: failing connection request\n", r.name)
		return false, errors.Join(err, id.Reject(nil))
	}
	return true, id.Accept(param)
}

// phase is something that all nodes do, one after the other, and what is said of it, if anything.
type phase struct {
	says string
	do   func(*node, context.Context) error
}

// transfer goes through the phases, if there are messages.
func (r *nodeRun) transfer(ctx context.Context, phases ...phase) error {
	if r.o.count == 0 {
		return nil
	}
	for _, p := range phases {
		if p.says != "" {
			r.printf("%s\n", p.says)
		}
		if err := r.each(func(n *node) error { return p.do(n, ctx) }); err != nil {
			return err
		}
	}
	r.printf("data transfers complete\n")
	return nil
}

func (r *nodeRun) each(f func(*node) error) error {
	for _, n := range r.nodes {
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

// finish frees all nodes and prints the last lines of the originals.
func (r *nodeRun) finish(err error) error {
	r.printf("test complete\n")
	errs := []error{err}
	for _, n := range r.nodes {
		errs = append(errs, n.free())
	}
	code := 0
	if err = errors.Join(errs...); err != nil {
		code = -1
		var ev *eventError
		if errors.As(err, &ev) {
			code = status(ev.e)
		}
	}
	r.printf("return status %d\n", code)
	return err
}
