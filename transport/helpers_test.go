package transport

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

var update = flag.Bool("update", false, "rewrite golden files")

// testRand is a deterministic source of random bytes.
type testRand struct{ *rand.ChaCha8 }

func newTestRand(seed byte) testRand { return testRand{rand.NewChaCha8([32]byte{seed})} }

// bench is an engine with one of each object, for tests of single parts.
type bench struct {
	e  *Engine
	pd *mem.PD
	cq *CQ
}

func newBench(t testing.TB) *bench {
	t.Helper()
	table := mem.NewTable(newTestRand(1), mem.Limits{})
	e, err := New(Config{
		GIDs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
		MTU:  ib.MTU1024, Mem: table, Rand: newTestRand(2),
	})
	require.NoError(t, err)
	pd, err := table.AllocPD()
	require.NoError(t, err)
	cq, err := e.CreateCQ(64, nil)
	require.NoError(t, err)
	return &bench{e, pd, cq}
}

// qp makes a QP of the given type with four work requests each way.
func (b *bench) qp(t testing.TB, typ ib.Transport, srq *SRQ) *QP {
	t.Helper()
	qp, err := b.e.CreateQP(QPInitAttr{
		Type: typ, PD: b.pd, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq,
		Caps: QPCaps{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2},
	})
	require.NoError(t, err)
	return qp
}

// goodAttr has a valid value for every attribute of a QP in the given state.
func goodAttr(cur QPState) QPAttr {
	return QPAttr{
		CurState: cur, Access: mem.RemoteWrite | mem.RemoteRead, PortNum: 1, QKey: 0x1234,
		AV:      AddressVector{DGID: ib.GIDFromAddr(netip.MustParseAddr("192.0.2.2"))},
		PathMTU: ib.MTU512, DestQPN: 0x55, RQPSN: 0xabcdef, SQPSN: 0x123456,
		MaxRdAtomic: 4, MaxDestRdAtomic: 8, MinRNRTimer: 12, Timeout: 14, RetryCnt: 7, RNRRetry: 6,
		MaxUnackedPackets: 32,
	}
}

// moveTo takes a fresh QP to a state by the shortest way.
func moveTo(t testing.TB, qp *QP, to QPState) {
	t.Helper()
	path := map[QPState][]QPState{
		StateReset: {},
		StateInit:  {StateInit},
		StateRTR:   {StateInit, StateRTR},
		StateRTS:   {StateInit, StateRTR, StateRTS},
		StateSQD:   {StateInit, StateRTR, StateRTS, StateSQD},
		StateErr:   {StateInit, StateErr},
		StateSQE:   {StateInit, StateRTR, StateRTS},
	}[to]
	for _, s := range path {
		a := goodAttr(qp.State())
		a.State = s
		require.NoError(t, qp.Modify(0, a, AttrState|transitions[qp.typ][qp.state][s].required))
	}
	if to == StateSQE {
		qp.sqError(0)
	}
	require.Equal(t, to, qp.State())
}

// drainEvents returns the types of all events that wait.
func drainEvents(e *Engine) []EventType {
	var all []EventType
	for ev, ok := e.PollEvent(); ok; ev, ok = e.PollEvent() {
		all = append(all, ev.Type)
	}
	return all
}

// pollAll returns all completions that wait.
func pollAll(cq *CQ) []WC {
	var all []WC
	var buf [8]WC
	for n := cq.Poll(buf[:]); n > 0; n = cq.Poll(buf[:]) {
		all = append(all, buf[:n]...)
	}
	return all
}
