package transport

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// rig is one responder driven by hand: the test is the peer. Packets go in as
// bytes, answers come out as lines of a transcript.
type rig struct {
	t    testing.TB
	e    *Engine
	qp   *QP
	cq   *CQ
	pd   *mem.PD
	now  int64
	mem  *mem.Region // what the peer may access, at rigVA
	raw  []byte      // its bytes with canaries around
	recv *mem.Region // where receive requests point, at rigRecvVA
	psn  ib.PSN      // of the next packet of send
	buf  []byte
	tx   [64]TxPacket
	last [][]byte // payloads of the last transcript
}

const (
	rigVA     = 0x10000
	rigRecvVA = 0x900000
	rigLen    = 64 << 10
	rigCanary = 64
	rigQPN    = 0x11
	rigPeer   = 0x77
	rigPSN    = 100
	rigQKey   = 0x1234
)

var (
	rigSelf  = netip.MustParseAddr("10.0.0.1")
	rigOther = netip.MustParseAddr("10.0.0.2")
)

type rigOpts struct {
	typ    ib.Transport
	mtu    ib.MTU
	psn    ib.PSN
	access mem.Access // of the QP; 0 is all
	noRd   bool       // max_dest_rd_atomic 0
	depth  uint8
	srq    bool
	rts    bool
	recvs  int
	cqe    int
	tuning Tuning
}

const allRemote = mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic | mem.FlushGlobal | mem.FlushPersistent

func newRig(t testing.TB, o rigOpts) *rig {
	if o.typ == 0 {
		o.typ = ib.RC
	}
	if o.mtu == 0 {
		o.mtu = ib.MTU256
	}
	if o.psn == 0 {
		o.psn = rigPSN
	}
	if o.access == 0 {
		o.access = allRemote
	}
	if o.depth == 0 && !o.noRd {
		o.depth = 4
	}
	if o.recvs == 0 {
		o.recvs = 16
	}
	if o.cqe == 0 {
		o.cqe = 64
	}
	rng := rand.NewChaCha8([32]byte{1})
	table := mem.NewTable(rng, mem.Limits{})
	e, err := New(Config{GIDs: []netip.Addr{rigSelf}, MTU: ib.MTU4096, Mem: table, Rand: rng, Tuning: o.tuning})
	require.NoError(t, err)
	r := &rig{t: t, e: e, psn: o.psn, now: 1}
	r.pd, err = table.AllocPD()
	require.NoError(t, err)
	r.raw = bytes.Repeat([]byte{0xC5}, rigLen+2*rigCanary)
	r.mem = r.register(r.raw[rigCanary:rigCanary+rigLen], rigVA, mem.LocalWrite|allRemote|mem.MWBind)
	r.recv = r.register(make([]byte, rigLen), rigRecvVA, mem.LocalWrite)
	for i := range r.mem.Bytes() {
		r.mem.Bytes()[i] = byte(i*7 + i>>8)
	}
	r.cq, err = e.CreateCQ(o.cqe, nil)
	require.NoError(t, err)
	a := QPInitAttr{
		Type: o.typ, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, QPN: rigQPN,
		Caps: QPCaps{MaxSendWR: 4, MaxSendSGE: 1, MaxRecvWR: o.recvs, MaxRecvSGE: 4},
	}
	if o.srq {
		a.SRQ, err = e.CreateSRQ(r.pd, SRQAttr{MaxWR: o.recvs, MaxSGE: 4}, nil)
		require.NoError(t, err)
	}
	r.qp, err = e.CreateQP(a)
	require.NoError(t, err)
	r.connect(o)
	return r
}

func (r *rig) register(b []byte, iova uint64, a mem.Access) *mem.Region {
	m, err := r.e.cfg.Mem.Register(r.pd, mem.RegionAttr{
		Bytes: b, IOVA: iova, IOVASet: true, Access: a,
		Persist: func([]byte) error { return nil },
	})
	require.NoError(r.t, err)
	return m
}

// connect takes the QP to RTR, or RTS.
func (r *rig) connect(o rigOpts) {
	init := AttrState | AttrPKeyIndex | AttrPort
	rtr := AttrState
	switch o.typ {
	case ib.UD:
		init |= AttrQKey
	default:
		init |= AttrAccess
		rtr |= AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
		if o.typ == ib.RC {
			rtr |= AttrMaxDestRdAtomic | AttrMinRNRTimer
		}
	}
	a := QPAttr{
		State: StateInit, PortNum: 1, Access: o.access, QKey: rigQKey,
		AV: AddressVector{DGID: ib.GIDFromAddr(rigOther)}, PathMTU: o.mtu, DestQPN: rigPeer,
		RQPSN: o.psn, MaxDestRdAtomic: o.depth, MinRNRTimer: 12,
	}
	require.NoError(r.t, r.qp.Modify(r.now, a, init))
	a.State = StateRTR
	require.NoError(r.t, r.qp.Modify(r.now, a, rtr))
	if o.rts {
		a.State = StateRTS
		rts := AttrState | AttrSQPSN
		if o.typ == ib.RC {
			rts |= AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic
		}
		require.NoError(r.t, r.qp.Modify(r.now, a, rts))
	}
}

// post posts a receive request of n bytes in pieces of at most piece bytes.
func (r *rig) post(id uint64, n, piece int) {
	wr := RecvWR{ID: id}
	for off := 0; off < n; off += piece {
		wr.SGList = append(wr.SGList, SGE{
			Addr: rigRecvVA + uint64(off), Length: uint32(min(piece, n-off)), LKey: r.recv.LKey(),
		})
	}
	if r.qp.srq != nil {
		require.NoError(r.t, r.qp.srq.PostRecv(&wr))
		return
	}
	require.NoError(r.t, r.qp.PostRecv(&wr))
}

// rx delivers p as it stands.
func (r *rig) rx(p *ib.Packet) {
	r.rxFrom(p, &RxPacket{Src: rigOther, Dst: rigSelf, HopLimit: 64})
}

func (r *rig) rxFrom(p *ib.Packet, rx *RxPacket) {
	r.buf = encode(r.buf[:0], p)
	rx.Data = r.buf
	r.e.HandlePacket(r.now, rx)
}

// encode appends p with its payload, padding and four bytes of ICRC to b.
func encode(b []byte, p *ib.Packet) []byte {
	var h [ib.MaxHeaderBytes]byte
	b = append(b, h[:p.PutHeaders(h[:])]...)
	b = append(b, p.Payload...)
	b = append(b, 0, 0, 0)[:len(b)+int(p.Pad)]
	return append(b, 0, 0, 0, 0)
}

// pkt returns a packet for the QP with the padding that its payload needs.
func pkt(op ib.Opcode, psn ib.PSN, payload []byte) ib.Packet {
	return ib.Packet{
		BTH: ib.BTH{
			Opcode: op, PKey: ib.PKeyDefault, DestQP: rigQPN, PSN: psn, AckReq: true,
			Pad: uint8(ib.PadFor(len(payload))),
		},
		Payload: payload,
	}
}

// send delivers a packet with the next PSN.
func (r *rig) send(op ib.Opcode, payload []byte, edit ...func(*ib.Packet)) {
	p := pkt(op, r.psn, payload)
	for _, f := range edit {
		f(&p)
	}
	r.rx(&p)
	n := 1
	if op == ib.RCReadRequest && p.RETH.Len <= MaxMessage {
		n = max(1, (int(p.RETH.Len)+r.qp.mtu-1)/r.qp.mtu)
	}
	r.psn = r.psn.Add(n)
}

// Edits of a packet.
func at(psn ib.PSN) func(*ib.Packet) { return func(p *ib.Packet) { p.PSN = psn } }

func noAck(p *ib.Packet) { p.AckReq = false }

func solicited(p *ib.Packet) { p.Solicited = true }

func imm(v uint32) func(*ib.Packet) { return func(p *ib.Packet) { p.ImmDt = v } }

func (r *rig) reth(off, n int) func(*ib.Packet) {
	return func(p *ib.Packet) {
		p.RETH = ib.RETH{VA: rigVA + uint64(off), RKey: r.mem.RKey(), Len: uint32(n)}
	}
}

func (r *rig) atomic(off int, swap, cmp uint64) func(*ib.Packet) {
	return func(p *ib.Packet) {
		p.Atomic = ib.AtomicETH{VA: rigVA + uint64(off), RKey: r.mem.RKey(), SwapAdd: swap, Compare: cmp}
	}
}

// poll returns what the engine sends, one line a packet.
func (r *rig) poll() []string { return r.pollN(len(r.tx)) }

// pollN is poll with room for n packets in each batch.
func (r *rig) pollN(n int) []string {
	var out []string
	r.last = nil
	for {
		got := r.e.PollTransmit(r.now, r.tx[:n])
		if got == 0 {
			return out
		}
		for i := range r.tx[:got] {
			tx := &r.tx[i]
			b := append(tx.AppendTo(nil), 0, 0, 0, 0)
			require.Len(r.t, b, tx.UDPPayloadLen())
			var p ib.Packet
			require.Equal(r.t, ib.DecodeOK, p.Decode(b))
			require.Equal(r.t, ib.QPN(rigPeer), p.DestQP)
			require.Equal(r.t, p.Opcode != ib.CNP, p.MigReq)
			require.Equal(r.t, ib.PadFor(len(p.Payload)), int(p.Pad))
			out = append(out, line(&p))
			r.last = append(r.last, bytes.Clone(p.Payload))
		}
	}
}

// line describes a response.
func line(p *ib.Packet) string {
	var b strings.Builder
	switch p.Opcode {
	case ib.RCAcknowledge:
		fmt.Fprintf(&b, "%v %d msn %d", p.AETH.Syndrome, p.PSN, p.AETH.MSN)
	case ib.RCAtomicAck:
		fmt.Fprintf(&b, "ATOMIC %d msn %d = %d", p.PSN, p.AETH.MSN, p.AtomicAck)
	case ib.CNP:
		b.WriteString("CNP")
	default:
		fmt.Fprintf(&b, "%s %d", strings.TrimPrefix(p.Opcode.String(), "RC READ RESPONSE "), p.PSN)
		if p.Opcode.Has(ib.HasAETH) {
			fmt.Fprintf(&b, " msn %d", p.AETH.MSN)
		}
		fmt.Fprintf(&b, " [%d]", len(p.Payload))
	}
	return b.String()
}

// want checks the next answers.
func (r *rig) want(lines ...string) {
	r.t.Helper()
	require.Equal(r.t, lines, r.poll())
}

// data returns the payloads of the last poll together.
func (r *rig) data() []byte { return bytes.Join(r.last, nil) }

// wcs returns all completions.
func (r *rig) wcs() []WC {
	out := make([]WC, 64)
	return out[:r.cq.Poll(out)]
}

// events returns the types of all events.
func (r *rig) events() (out []EventType) {
	for {
		ev, ok := r.e.PollEvent()
		if !ok {
			return out
		}
		out = append(out, ev.Type)
	}
}

// canaries checks that nothing around the peer's memory was touched.
func (r *rig) canaries() {
	r.t.Helper()
	for i := range rigCanary {
		if r.raw[i] != 0xC5 || r.raw[rigCanary+rigLen+i] != 0xC5 {
			r.t.Fatal("bytes outside of the region were written")
		}
	}
}

// pattern returns n bytes that depend on seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*3 + seed
	}
	return b
}
