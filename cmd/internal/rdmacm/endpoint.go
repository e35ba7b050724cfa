package rdmacm

import (
	"context"
	"errors"
	"net/netip"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

const (
	endpointPort  = 7471
	endpointBytes = 16 // of the one message in each direction
)

// endpoint is rdma_server and rdma_client: a message there and one back.
type endpoint struct {
	dev    tool.DeviceOptions
	client bool
	addr   string // of the server
	port   int
}

func newEndpointServer() program { return &endpoint{addr: "0.0.0.0", port: endpointPort} }

func newEndpointClient() program {
	return &endpoint{client: true, addr: "127.0.0.1", port: endpointPort}
}

func (p *endpoint) device() *tool.DeviceOptions { return &p.dev }
func (p *endpoint) usage() []string             { return []string{"[-s server_address] [-p port_number]"} }
func (p *endpoint) check() error                { return nil }

func (p *endpoint) options() []getopt.Option {
	what := "address to listen on (default: all)"
	if p.client {
		what = "address of the server (default 127.0.0.1)"
	}
	return []getopt.Option{
		{Short: 's', Arg: "addr", Help: what, Set: getopt.String(&p.addr)},
		{Short: 'p', Arg: "port", Help: "RDMA-CM port (default 7471)", Set: getopt.Int(&p.port, 0, 65535)},
	}
}

func (p *endpoint) run(ctx context.Context, env *tool.Env) (err error) {
	name := "rdma_server"
	addr, err := lookup(ctx, p.addr)
	if err != nil {
		return err
	}
	local, peer := addr, netip.Addr{}
	if p.client {
		name = "rdma_client"
		local, peer = peer, addr
	}
	s, err := open(name, env, &p.dev, local, peer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.printf("%s: start\n", name)
	if p.client {
		err = p.connect(ctx, s, on(addr, p.port))
	} else {
		err = p.serve(ctx, s, on(addr, p.port))
	}
	if err == nil {
		s.printf("%s: end 0\n", name)
	}
	return err
}

func (p *endpoint) connect(ctx context.Context, s *side, to netip.AddrPort) (err error) {
	id, err := rdmacm.CreateID(s.ch, rdmacm.PortSpaceTCP)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, id.Close()) }()
	if err := s.resolve(ctx, id, netip.AddrPort{}, to); err != nil {
		return err
	}
	m, err := newMessenger(s, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.free()) }()
	if err := id.Connect(nil); err != nil {
		return err
	}
	if _, err := expect(ctx, s.ch, rdmacm.EventEstablished); err != nil {
		return err
	}
	if err = m.send(ctx); err == nil {
		err = m.recv(ctx)
	}
	return errors.Join(err, s.hangUp(context.WithoutCancel(ctx), id, s.ch))
}

func (p *endpoint) serve(ctx context.Context, s *side, local netip.AddrPort) (err error) {
	l, err := s.listen(rdmacm.PortSpaceTCP, local, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	e, err := expect(ctx, s.ch, rdmacm.EventConnectRequest)
	if err != nil {
		return err
	}
	id := e.ID
	defer func() { err = errors.Join(err, id.Close()) }()
	m, err := newMessenger(s, id)
	if err != nil {
		return errors.Join(err, id.Reject(nil))
	}
	defer func() { err = errors.Join(err, m.free()) }()
	if err := id.Accept(nil); err != nil {
		return err
	}
	if _, err := expect(ctx, s.ch, rdmacm.EventEstablished); err != nil {
		return err
	}
	if err = m.recv(ctx); err == nil {
		err = m.send(ctx)
	}
	return errors.Join(err, s.hangUp(context.WithoutCancel(ctx), id, s.ch))
}

// messenger is the queue pair of an endpoint.
type messenger struct {
	id       *rdmacm.ID
	scq, rcq *verbs.CQ
	mr       *verbs.MR
}

// newMessenger makes the queue pair and posts the receive.
func newMessenger(s *side, id *rdmacm.ID) (_ *messenger, err error) {
	m := &messenger{id: id}
	defer func() {
		if err != nil {
			_ = m.free() // the first error counts
		}
	}()
	if m.scq, err = s.dev.CreateCQ(1, nil); err != nil {
		return nil, err
	}
	if m.rcq, err = s.dev.CreateCQ(1, nil); err != nil {
		return nil, err
	}
	if m.mr, err = s.pd.RegisterMR(make([]byte, endpointBytes), verbs.LocalWrite, nil); err != nil {
		return nil, err
	}
	qp, err := id.CreateQP(s.pd, verbs.QPInitAttr{SendCQ: m.scq, RecvCQ: m.rcq, Caps: verbs.QPCaps{
		MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: endpointBytes,
	}})
	if err != nil {
		return nil, err
	}
	return m, qp.PostRecv(&verbs.RecvWR{ID: wrRecv, SGList: []verbs.SGE{m.mr.SGE(0, endpointBytes)}})
}

func (m *messenger) send(ctx context.Context) error {
	err := m.id.QP().PostSend(&verbs.SendWR{
		ID: wrSend, Opcode: verbs.WRSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: make([]byte,
			endpointBytes),
	})
	if err != nil {
		return err
	}
	return complete(ctx, m.scq, 1, nil)
}

func (m *messenger) recv(ctx context.Context) error { return complete(ctx, m.rcq, 1, nil) }

func (m *messenger) free() error {
	var errs []error
	if qp := m.id.QP(); qp != nil {
		errs = append(errs, qp.Close())
	}
	for _, cq := range []*verbs.CQ{m.scq, m.rcq} {
		if cq != nil {
			errs = append(errs, cq.Close())
		}
	}
	if m.mr != nil {
		errs = append(errs, m.mr.Close())
	}
	return errors.Join(errs...)
}

// complete waits for n completions, all of which have to be good. each, if it
// is not nil, sees them.
func complete(ctx context.Context, cq *verbs.CQ, n int, each func(*verbs.WC) error) error {
	var wcs [8]verbs.WC
	for n > 0 {
		got, err := wait(ctx, cq, wcs[:min(n, len(wcs))])
		if err != nil {
			return err
		}
		for i := range wcs[:got] {
			if wcs[i].Status != verbs.WCSuccess {
				return failed(&wcs[i])
			}
			if each != nil {
				if err := each(&wcs[i]); err != nil {
					return err
				}
			}
		}
		n -= got
	}
	return nil
}
