package transport

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// loop is two connected QPs on engines of their own, joined by a function that
// carries packets from one to the other at once. It has no faults: tests of
// those script one side themselves, see script_test.go, or use Pair.
type loop struct {
	t     testing.TB
	now   int64
	a, b  *side
	batch []TxPacket
	buf   []byte
}

// side is one end of a loop.
type side struct {
	e      *Engine
	mem    *mem.Table
	pd     *mem.PD
	scq    *CQ
	rcq    *CQ
	qp     *QP
	addr   netip.Addr
	region *mem.Region
	data   []byte
	rx     RxPacket
}

// loopOptions are what tests vary; zero fields have defaults.
type loopOptions struct {
	typ       ib.Transport
	mtu       ib.MTU
	data      int // bytes of the region on each side
	caps      QPCaps
	psn       ib.PSN
	attr      func(*QPAttr)
	tuning    Tuning
	cqe       int
	onRelease func()
	tracer    Tracer
	gso       bool
	room      Room
	iova      uint64 // of the regions; 0 for their addresses
	slowStart bool   // the window begins small
}

func newSide(t testing.TB, addr string, seed byte, o loopOptions) *side {
	s := &side{addr: netip.MustParseAddr(addr), data: make([]byte, o.data)}
	s.mem = mem.NewTable(rand.NewChaCha8([32]byte{seed, 1}), mem.Limits{})
	var err error
	s.e, err = New(Config{
		GIDs: []netip.Addr{s.addr}, MTU: ib.MTU4096, Mem: s.mem,
		Rand: rand.NewChaCha8([32]byte{seed}), Tuning: o.tuning, Tracer: o.tracer, GSO: o.gso, Room: o.room,
	})
	require.NoError(t, err)
	s.pd, err = s.mem.AllocPD()
	require.NoError(t, err)
	s.region, err = s.mem.Register(s.pd, mem.RegionAttr{
		Bytes: s.data, OnRelease: o.onRelease, IOVA: o.iova, IOVASet: o.iova != 0,
		Access: mem.LocalWrite | mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic | mem.MWBind | mem.FlushGlobal,
	})
	require.NoError(t, err)
	s.scq, err = s.e.CreateCQ(o.cqe, nil)
	require.NoError(t, err)
	s.rcq, err = s.e.CreateCQ(o.cqe, nil)
	require.NoError(t, err)
	s.qp, err = s.e.CreateQP(QPInitAttr{Type: o.typ, PD: s.pd, SendCQ: s.scq, RecvCQ: s.rcq, Caps: o.caps})
	require.NoError(t, err)
	return s
}

func newLoop(t testing.TB, o loopOptions) *loop {
	if o.typ == 0 {
		o.typ = ib.RC
	}
	if o.mtu == 0 {
		o.mtu = ib.MTU1024
	}
	if o.data == 0 {
		o.data = 1 << 20
	}
	if o.cqe == 0 {
		o.cqe = 1024
	}
	if o.caps == (QPCaps{}) {
		o.caps = QPCaps{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 2, MaxInline: 64}
	}
	l := &loop{
		t: t, now: 1e9, batch: make([]TxPacket, 64), buf: make([]byte, 0, ib.MaxPacketBytes),
		a: newSide(t, "10.0.0.1", 'a', o), b: newSide(t, "10.0.0.2", 'b', o),
	}
	l.connect(l.a, l.b, o)
	l.connect(l.b, l.a, o)
	return l
}

// connect brings s.qp to RTS towards to.qp.
func (l *loop) connect(s, to *side, o loopOptions) {
	a := QPAttr{
		State: StateInit, PortNum: 1, QKey: 0x1234,
		Access: mem.LocalWrite | mem.RemoteWrite | mem.RemoteRead | mem.RemoteAtomic | mem.FlushGlobal,
	}
	mask := AttrState | AttrPKeyIndex | AttrPort
	if o.typ == ib.UD {
		mask |= AttrQKey
	} else {
		mask |= AttrAccess
	}
	require.NoError(l.t, s.qp.Modify(l.now, a, mask))
	a = QPAttr{
		State: StateRTR, AV: AddressVector{DGID: ib.GIDFromAddr(to.addr)}, PathMTU: o.mtu,
		DestQPN: to.qp.Number(), RQPSN: o.psn, MaxDestRdAtomic: 16, MinRNRTimer: 12,
		SQPSN: o.psn, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 16,
	}
	if o.attr != nil {
		o.attr(&a)
	}
	mask = AttrState
	if o.typ != ib.UD {
		mask |= AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	}
	if o.typ == ib.RC {
		mask |= AttrMaxDestRdAtomic | AttrMinRNRTimer
	}
	require.NoError(l.t, s.qp.Modify(l.now, a, mask))
	a.State = StateRTS
	mask = AttrState | AttrSQPSN
	if o.typ == ib.RC {
		mask |= AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxRdAtomic | AttrSilence
	}
	require.NoError(l.t, s.qp.Modify(l.now, a, mask))
	if !o.slowStart {
		s.qp.OpenWindow()
	}
}

// carry moves everything that from has to send to to, and returns how many packets that was.
func (l *loop) carry(from, to *side) int {
	total := 0
	for {
		n := from.e.PollTransmit(l.now, l.batch)
		if n == 0 {
			return total
		}
		for i := range l.batch[:n] {
			l.buf = append(l.batch[i].AppendTo(l.buf[:0]), 0, 0, 0, 0)
			to.rx = RxPacket{Src: from.addr, Dst: to.addr, Data: l.buf}
			to.e.HandlePacket(l.now, &to.rx)
		}
		total += n
	}
}

// run carries packets both ways, and lets time pass for timers, until nothing happens any more.
func (l *loop) run() {
	for {
		for l.carry(l.a, l.b)+l.carry(l.b, l.a) > 0 {
		}
		at, ok := l.a.e.NextTimeout()
		if bt, bok := l.b.e.NextTimeout(); bok && (!ok || bt < at) {
			at, ok = bt, true
		}
		if !ok {
			return
		}
		l.now = max(l.now, at)
		l.a.e.HandleTimeout(l.now)
		l.b.e.HandleTimeout(l.now)
	}
}

// at returns the SGE of n bytes at off of the side's region.
func (s *side) at(off, n int) SGE {
	return SGE{Addr: s.region.IOVA() + uint64(off), Length: uint32(n), LKey: s.region.LKey()}
}

// completions takes all completions of cq.
func completions(cq *CQ) []WC {
	var wcs []WC
	var b [8]WC
	for {
		n := cq.Poll(b[:])
		if n == 0 {
			return wcs
		}
		wcs = append(wcs, b[:n]...)
	}
}

// fill writes bytes that tell where they are.
func fill(b []byte, seed byte) {
	x := uint32(seed) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}
