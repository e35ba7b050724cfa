package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce"
)

// Goroce is this module's stack on this machine.
type Goroce struct {
	name  string
	link  string
	port  string
	addrs map[Family]netip.Addr
	dev   *roce.Device
}

// GorocePlace says where a Goroce lives.
type GorocePlace struct {
	Addr4, Addr6 netip.Addr // this machine's, on the segment under test
	PortName     string     // this machine's port on the wire
	Link         string     // one of Links; empty is DefaultLink
	// RxeFlush is set when the other side is rxe: see udp.Options.
	RxeFlush bool
}

// addrs is the GID table of the place.
func (at GorocePlace) addrs() []netip.Addr { return []netip.Addr{at.Addr4, at.Addr6} }

// NewGoroce opens a device. Close ends it.
func NewGoroce(at GorocePlace) (*Goroce, error) {
	at.Link = cmp.Or(at.Link, DefaultLink)
	dev, err := openDevice(at)
	if err != nil {
		return nil, err
	}
	return &Goroce{name: "goroce", link: at.Link, port: at.PortName, addrs: map[Family]netip.Addr{V4: at.Addr4, V6: at.Addr6}, dev: dev}, nil
}

// Close closes the device.
func (p *Goroce) Close() error { return p.dev.Close() }

// Device is the device itself, for what Peer has no words for.
func (p *Goroce) Device() *roce.Device { return p.dev }

// Name is "goroce".
func (p *Goroce) Name() string { return p.name }

// Link is the name of the link.
func (p *Goroce) Link() string { return p.link }

// Caps are those of the engine.
func (p *Goroce) Caps() Caps { return Caps{AtomicWrite: true, Flush: true, MaxMsg: 1 << 31} }

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
	pd  *roce.PD
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
	return errors.Join(append(errs, s.pd.Dealloc())...)
}

func (s *goroceSession) Counters() (map[string]uint64, error) {
	c := s.p.dev.Counters()
	return map[string]uint64{
		"sent_pkts": c.SentPkts, "rcvd_pkts": c.RcvdPkts, "duplicate_request": c.DuplicateRequest, "out_of_seq_request": c.OutOfSeqRequest,
		"rcvd_rnr_err": c.RcvdRNRErr, "send_rnr_err": c.SendRNRErr, "rcvd_seq_err": c.RcvdSeqErr, "retry_exceeded_err": c.RetryExceededErr,
		"retry_rnr_exceeded_err": c.RetryRNRExceededErr, "rdma_sends": c.RDMASends, "rdma_recvs": c.RDMARecvs,
		"timeouts": c.Timeouts, "implied_naks": c.ImpliedNAKs, "sent_seq_naks": c.SentSeqNAKs, "icrc_errors": c.DropICRC,
	}, nil
}

type goroceMR struct {
	dev  *roce.Device
	mr   *roce.MR
	b    []byte
	gone bool
}

func (s *goroceSession) MR(n int, access Access) (MR, error) {
	b := make([]byte, n)
	mr, err := s.pd.RegisterMR(b, roce.Access(access))
	if err != nil {
		return nil, err
	}
	m := &goroceMR{dev: s.p.dev, mr: mr, b: b}
	s.mrs = append(s.mrs, m)
	return m, nil
}

func (m *goroceMR) Addr() uint64 { return m.mr.Addr() }
func (m *goroceMR) Len() int     { return len(m.b) }
func (m *goroceMR) LKey() uint32 { return uint32(m.mr.LKey()) }
func (m *goroceMR) RKey() uint32 { return uint32(m.mr.RKey()) }

func (m *goroceMR) span(off, n int) ([]byte, error) {
	m.fence()
	if off < 0 || n < 0 || off > len(m.b) || n > len(m.b)-off {
		return nil, fmt.Errorf("peer: %d bytes at %d in a region of %d", n, off, len(m.b))
	}
	return m.b[off : off+n], nil
}

// fence orders accesses of this goroutine with those of the device. A peer's one-sided
// operation ends without a completion here: that it has ended is known from the other
// machine, which is no event in Go's memory model. Taking the device's lock is.
func (m *goroceMR) fence() { m.dev.Counters() }

func (m *goroceMR) Fill(off, n int, seed uint64, base int) error {
	defer m.fence()
	b, err := m.span(off, n)
	if err == nil {
		FillPattern(b, seed, base)
	}
	return err
}

func (m *goroceMR) Check(off, n int, seed uint64, base int) (int, error) {
	b, err := m.span(off, n)
	if err != nil {
		return 0, err
	}
	return CheckPattern(b, seed, base), nil
}

func (m *goroceMR) Write(off int, b []byte) error {
	defer m.fence()
	dst, err := m.span(off, len(b))
	copy(dst, b)
	return err
}

func (m *goroceMR) Read(off, n int) ([]byte, error) {
	b, err := m.span(off, n)
	return append([]byte(nil), b...), err
}

func (m *goroceMR) Dereg() error {
	if m.gone {
		return nil
	}
	m.gone = true
	return m.mr.Deregister()
}

type goroceQP struct {
	s              *goroceSession
	qp             *roce.QP
	cfg            QPConfig
	sendCQ, recvCQ *roce.CQ
	ahs            map[netip.Addr]*roce.AH
	windows        []*roce.MW
	closed         bool
}

func (s *goroceSession) QP(cfg QPConfig) (QP, error) {
	q := &goroceQP{s: s, cfg: cfg, ahs: map[netip.Addr]*roce.AH{}}
	var err error
	if q.sendCQ, err = s.p.dev.CreateCQ(def(cfg.MaxSendWR, 64)+1, nil); err != nil {
		return nil, err
	}
	if q.recvCQ, err = s.p.dev.CreateCQ(def(cfg.MaxRecvWR, 64)+1, nil); err != nil {
		return nil, errors.Join(err, q.sendCQ.Close())
	}
	typ := map[Type]ib.Transport{RC: roce.RC, UC: roce.UC, UD: roce.UD}[cfg.Type]
	q.qp, err = s.pd.CreateQP(roce.QPInitAttr{
		Type: typ, SendCQ: q.sendCQ, RecvCQ: q.recvCQ,
		Caps: roce.QPCaps{MaxSendWR: def(cfg.MaxSendWR, 64), MaxRecvWR: def(cfg.MaxRecvWR, 64), MaxSendSGE: def(cfg.MaxSGE, 4), MaxRecvSGE: def(cfg.MaxSGE, 4)},
	})
	if err == nil && cfg.Type == UD {
		err = q.qp.ToInitUD(ib.QKey(cfg.QKey))
	} else if err == nil {
		err = q.qp.ToInit(roce.Access(cfg.Access))
	}
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	s.qps = append(s.qps, q)
	return q, nil
}

func (q *goroceQP) QPN() uint32 { return uint32(q.qp.Num()) }

func (q *goroceQP) Connect(c Conn) error {
	sgid, err := q.s.p.dev.GIDIndexFor(ib.GIDFromAddr(c.Remote))
	if err != nil {
		return err
	}
	mtu, ok := ib.MTUFromBytes(c.MTU)
	if !ok {
		return fmt.Errorf("peer: %d is no path MTU", c.MTU)
	}
	a := roce.ConnAttr{
		SGIDIndex: sgid, MTU: mtu, Timeout: ib.TimeoutCode(c.Timeout), RetryCnt: uint8(c.RetryCnt), RNRRetry: uint8(c.RNRRetry),
		MinRNRTimer: ib.RNRCode(c.MinRNRTimer), MaxRdAtomic: uint8(c.MaxRdAtomic), MaxDestRdAtomic: uint8(c.MaxDestRdAtomic),
		PSN: ib.PSN(c.SQPSN), SetPSN: true,
	}
	remote := roce.RemoteInfo{QPN: ib.QPN(c.RemoteQPN), PSN: ib.PSN(c.RQPSN), GID: ib.GIDFromAddr(c.Remote)}
	if err := q.qp.ToRTR(remote, a); err != nil {
		return err
	}
	return q.qp.ToRTS(a)
}

func (q *goroceQP) State() (State, error) { return State(q.qp.State()), nil }

func goroceSGL(sgl []SGE) []roce.SGE {
	var out []roce.SGE
	for _, e := range sgl {
		if e.Raw {
			out = append(out, roce.SGE{Addr: e.Addr, LKey: ib.LKey(e.LKey), Length: uint32(e.Len)})
			continue
		}
		out = append(out, e.MR.(*goroceMR).mr.SGE(e.Off, e.Len))
	}
	return out
}

var goroceOps = map[Opcode]roce.WROpcode{
	OpWrite: roce.WRWrite, OpWriteImm: roce.WRWriteImm, OpSend: roce.WRSend, OpSendImm: roce.WRSendImm, OpRead: roce.WRRead,
	OpCmpSwap: roce.WRCompareSwap, OpFetchAdd: roce.WRFetchAdd, OpLocalInv: roce.WRLocalInv, OpSendInv: roce.WRSendInv,
	OpFlush: roce.WRFlush, OpAtomicWrite: roce.WRAtomicWrite,
}

func (q *goroceQP) PostSend(wr SendWR) error {
	op, ok := goroceOps[wr.Op]
	if !ok {
		return fmt.Errorf("peer: no work request for %v", wr.Op)
	}
	w := roce.SendWR{
		ID: wr.ID, Opcode: op, Flags: roce.SendFlags(wr.Flags), SGList: goroceSGL(wr.SGL),
		Imm: wr.Imm, InvalidateKey: ib.RKey(wr.InvKey), RemoteAddr: wr.RemoteAddr, RKey: ib.RKey(wr.RKey),
		CompareAdd: wr.CompareAdd, Swap: wr.Swap, AtomicWriteVal: wr.Value,
		FlushLength: uint32(wr.FlushLen), FlushType: ib.FETH(wr.FlushPLT | wr.FlushSEL<<4),
		RemoteQPN: ib.QPN(wr.RemoteQPN), RemoteQKey: ib.QKey(wr.RemoteQKey),
	}
	if q.cfg.Type == UD {
		ah, err := q.ah(wr.Remote)
		if err != nil {
			return err
		}
		w.AH = ah.Handle()
	}
	return q.qp.PostSend(&w)
}

func (q *goroceQP) ah(to netip.Addr) (*roce.AH, error) {
	if ah, ok := q.ahs[to]; ok {
		return ah, nil
	}
	ah, err := q.s.pd.CreateAHTo(ib.GIDFromAddr(to))
	if err == nil {
		q.ahs[to] = ah
	}
	return ah, err
}

func (q *goroceQP) PostRecv(wr RecvWR) error {
	return q.qp.PostRecv(&roce.RecvWR{ID: wr.ID, SGList: goroceSGL(wr.SGL)})
}

func (q *goroceQP) PollSend(n int, wait time.Duration) ([]WC, error) {
	return pollGoroce(q.sendCQ, n, wait)
}
func (q *goroceQP) PollRecv(n int, wait time.Duration) ([]WC, error) {
	return pollGoroce(q.recvCQ, n, wait)
}

func pollGoroce(cq *roce.CQ, n int, wait time.Duration) ([]WC, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var out []WC
	buf := make([]roce.WC, n)
	for len(out) < n {
		k, err := cq.Wait(ctx, buf[:n-len(out)])
		if errors.Is(err, context.DeadlineExceeded) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		for _, w := range buf[:k] {
			wc := WC{ID: w.ID, Status: Status(w.Status), Opcode: int(w.Opcode), ByteLen: int(w.ByteLen), QPN: uint32(w.QPN), SrcQP: uint32(w.SrcQP), Flags: int(w.Flags), Imm: w.Imm}
			if wc.Flags&WCFlagInv != 0 {
				wc.Imm = uint32(w.InvKey)
			}
			out = append(out, wc)
		}
	}
	return out, nil
}

func (q *goroceQP) BindWindow(mr MR, off, n int, access Access) (uint32, error) {
	mw, err := q.s.pd.AllocMW(roce.WindowType2B)
	if err != nil {
		return 0, err
	}
	q.windows = append(q.windows, mw)
	key, err := q.qp.BindMW(0, mw, mr.(*goroceMR).mr, off, n, roce.Access(access), roce.SendSignaled)
	if err != nil {
		return 0, err
	}
	wc, err := q.PollSend(1, 5*time.Second)
	if err != nil {
		return 0, err
	}
	if len(wc) != 1 || wc[0].Status != Success {
		return 0, fmt.Errorf("peer: bind: %v", wc)
	}
	return uint32(key), nil
}

func (q *goroceQP) Close() error {
	if q.closed {
		return nil
	}
	q.closed = true
	var errs []error
	if q.qp != nil {
		errs = append(errs, q.qp.Close())
	}
	errs = append(errs, q.sendCQ.Close(), q.recvCQ.Close())
	for _, ah := range q.ahs {
		errs = append(errs, ah.Destroy())
	}
	for _, w := range q.windows {
		errs = append(errs, w.Dealloc())
	}
	return errors.Join(errs...)
}
