package peer

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// Goroce is this module's stack on this machine.
type Goroce struct {
	name  string
	link  string
	port  string
	addrs map[Family]netip.Addr
	dev   *verbs.Device
}

// GorocePlace says where a Goroce lives.
type GorocePlace struct {
	Addr4, Addr6 netip.Addr // this machine's, on the segment under test
	PortName     string     // this machine's port on the wire
	Link         string     // one of Links; empty is DefaultLink
	// RxeFlush is set when the other side is rxe: see udp.Options.
	RxeFlush bool
	// WrapLink, if not nil, is what the link is put into.
	WrapLink func(link.Link) link.Link
	// Tuning of the device.
	Tuning transport.Tuning
}

// Addrs is the GID table of the place.
func (at GorocePlace) Addrs() []netip.Addr {
	return slices.DeleteFunc([]netip.Addr{at.Addr4, at.Addr6}, func(a netip.Addr) bool { return !a.IsValid() })
}

// NewGoroce opens a device. Close ends it.
func NewGoroce(at GorocePlace) (*Goroce, error) {
	at.Link = cmp.Or(at.Link, DefaultLink)
	dev, err := openDevice(at)
	if err != nil {
		return nil, err
	}
	return &Goroce{name: "goroce", link: at.Link, port: at.PortName, addrs: map[Family]netip.Addr{
		V4: at.Addr4, V6: at.Addr6,
	}, dev: dev}, nil
}

// GoroceOn is a Goroce on a device that is open already, and that Close closes.
func GoroceOn(dev *verbs.Device, at GorocePlace) *Goroce {
	return &Goroce{name: "goroce", link: at.Link, port: at.PortName,
		addrs: map[Family]netip.Addr{V4: at.Addr4, V6: at.Addr6}, dev: dev}
}

// Close closes the device.
func (p *Goroce) Close() error { return p.dev.Close() }

// Device is the device itself, for what Peer has no words for.
func (p *Goroce) Device() *verbs.Device { return p.dev }

// Overflows counts the packets that the kernel dropped because the link had no room for them.
func (p *Goroce) Overflows() uint64 { return p.dev.LinkStats().RxOverflow }

// Name is "goroce".
func (p *Goroce) Name() string { return p.name }

// Link is the name of the link.
func (p *Goroce) Link() string { return p.link }

// Caps are those of the engine.
func (p *Goroce) Caps() Caps {
	return Caps{AtomicWrite: true, Flush: true, MaxMTU: p.dev.Port().ActiveMTU.Bytes()}
}

// Profile is that of this module.
func (p *Goroce) Profile() Profile { return ProfileGoroce }

// Addr is the address of a family.
func (p *Goroce) Addr(f Family) netip.Addr { return p.addrs[f] }

// PortName is this machine's port.
func (p *Goroce) PortName() string { return p.port }

// Open starts a session: a protection domain of its own.
func (p *Goroce) Open(context.Context) (Session, error) {
	pd, err := p.dev.AllocPD()
	if err != nil {
		return nil, err
	}
	return &goroceSession{p: p, pd: pd}, nil
}

type goroceSession struct {
	p   *Goroce
	pd  *verbs.PD
	mrs []*goroceMR
	qps []*goroceQP
}

func (s *goroceSession) Close() error {
	var errs []error
	for _, q := range s.qps {
		errs = append(errs, q.Close())
	}
	for _, m := range s.mrs {
		errs = append(errs, m.Dereg())
	}
	return errors.Join(append(errs, s.pd.Close())...)
}

func (s *goroceSession) Counters() (map[string]uint64, error) {
	c := s.p.dev.Counters()
	return map[string]uint64{
		"sent_pkts": c.SentPkts, "rcvd_pkts": c.RcvdPkts, "duplicate_request": c.DuplicateRequest,
		"out_of_seq_request": c.OutOfSeqRequest, "rcvd_rnr_err": c.RcvdRNRErr, "send_rnr_err": c.SendRNRErr,
		"rcvd_seq_err": c.RcvdSeqErr, "retry_exceeded_err": c.RetryExceededErr,
		"retry_rnr_exceeded_err": c.RetryRNRExceededErr, "rdma_sends": c.RDMASends, "rdma_recvs": c.RDMARecvs,
		"timeouts": c.Timeouts, "loss_probes": c.LossProbes, "implied_naks": c.ImpliedNAKs,
		"sent_seq_naks": c.SentSeqNAKs, "icrc_errors": c.DropICRC, "ce_marked": c.CEMarkedPkts,
		"cnps_sent": c.CNPsSent, "cnps_handled": c.CNPsHandled,
	}, nil
}
