package transport

import (
	"errors"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

func TestCreateQPBadArguments(t *testing.T) {
	b := newBench(t)
	other := newBench(t)
	dead, err := b.e.CreateCQ(1, nil)
	require.NoError(t, err)
	require.NoError(t, dead.Destroy())
	taken := b.qp(t, ib.RC, nil)
	refs := b.pd.Refs()
	for _, tc := range []struct {
		attr   string
		change func(*QPInitAttr)
	}{
		{"qp_type", func(a *QPInitAttr) { a.Type = ib.TransportCNP }},
		{"qp_type", func(a *QPInitAttr) { a.Type = 0 }},
		{"pd", func(a *QPInitAttr) { a.PD = nil }},
		{"pd", func(a *QPInitAttr) { a.PD = other.pd }},
		{"send_cq", func(a *QPInitAttr) { a.SendCQ = nil }},
		{"send_cq", func(a *QPInitAttr) { a.SendCQ = dead }},
		{"send_cq", func(a *QPInitAttr) { a.SendCQ = other.cq }},
		{"recv_cq", func(a *QPInitAttr) { a.RecvCQ = nil }},
		{"recv_cq", func(a *QPInitAttr) { a.RecvCQ = dead }},
		{"recv_cq", func(a *QPInitAttr) { a.RecvCQ = other.cq }},
		{"srq", func(a *QPInitAttr) { a.SRQ = newSRQ(t, other, 1) }},
		{"max_send_wr", func(a *QPInitAttr) { a.Caps.MaxSendWR = -1 }},
		{"max_send_wr", func(a *QPInitAttr) { a.Caps.MaxSendWR = MaxQueueWR + 1 }},
		{"max_recv_wr", func(a *QPInitAttr) { a.Caps.MaxRecvWR = -1 }},
		{"max_send_sge", func(a *QPInitAttr) { a.Caps.MaxSendSGE = MaxSGE + 1 }},
		{"max_recv_sge", func(a *QPInitAttr) { a.Caps.MaxRecvSGE = MaxSGE + 1 }},
		{"max_inline_data", func(a *QPInitAttr) { a.Caps.MaxInline = MaxInline + 1 }},
		{"qp_num", func(a *QPInitAttr) { a.QPN = ib.QPNMulticast }},
		{"qp_num", func(a *QPInitAttr) { a.QPN = taken.Number() }},
	} {
		a := QPInitAttr{Type: ib.RC, PD: b.pd, SendCQ: b.cq, RecvCQ: b.cq}
		tc.change(&a)
		_, err := b.e.CreateQP(a)
		requireAttr(t, err, tc.attr)
	}
	require.Equal(t, refs, b.pd.Refs(), "a refused call holds nothing")
	require.Len(t, b.e.qps, 1)
}

type failingRand struct{}

func (failingRand) Read([]byte) (int, error) { return 0, errNoEntropy }

var errNoEntropy = errors.New("no entropy")

func TestQPNumbers(t *testing.T) {
	b := newBench(t)
	seen := map[ib.QPN]bool{}
	for range 1000 {
		qp := b.qp(t, ib.RC, nil)
		n := qp.Number()
		require.False(t, seen[n])
		require.GreaterOrEqual(t, n, ib.QPN(minQPN))
		require.Less(t, n, ib.QPNMulticast)
		seen[n] = true
	}
	gsi, err := b.e.CreateQP(QPInitAttr{Type: ib.UD, PD: b.pd, SendCQ: b.cq, RecvCQ: b.cq, QPN: ib.QPNGSI})
	require.NoError(t, err)
	require.Equal(t, ib.QPNGSI, gsi.Number())
	b.e.cfg.Rand = iotest.OneByteReader(newTestRand(3)) // as an io.Reader may
	require.Greater(t, b.qp(t, ib.RC, nil).Number()&0xFFFF, ib.QPN(0))
	b.e.cfg.Rand = failingRand{}
	_, err = b.e.CreateQP(QPInitAttr{Type: ib.UD, PD: b.pd, SendCQ: b.cq, RecvCQ: b.cq})
	require.ErrorIs(t, err, errNoEntropy)
}

func TestDestroyQP(t *testing.T) {
	b := newBench(t)
	refs, users := b.pd.Refs(), b.cq.users.Load()
	qp := b.qp(t, ib.RC, nil)
	moveTo(t, qp, StateRTS)
	for range 2 {
		require.NoError(t, qp.PostRecv(&RecvWR{}))
	}
	qp.takeRecv()
	require.NoError(t, qp.Destroy())
	require.Empty(t, pollAll(b.cq))
	require.Equal(t, refs, b.pd.Refs())
	require.Equal(t, users, b.cq.users.Load())
	require.ErrorIs(t, qp.Destroy(), ErrDestroyed)
	require.ErrorIs(t, qp.Modify(0, QPAttr{}, 0), ErrDestroyed)
	require.ErrorIs(t, qp.PostSend(0, &SendWR{}), ErrDestroyed)
	_, armed := b.e.NextTimeout()
	require.False(t, armed)
}

func TestQueryReturnsWhatWasSet(t *testing.T) {
	b := newBench(t)
	qp, err := b.e.CreateQP(QPInitAttr{
		Type: ib.RC, PD: b.pd, SendCQ: b.cq, RecvCQ: b.cq, SigAll: true, UserData: 5,
		Caps: QPCaps{MaxSendWR: 3, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
	})
	require.NoError(t, err)
	moveTo(t, qp, StateRTS)
	require.NoError(t, qp.Modify(0, goodAttr(StateRTS), AttrWindow))
	got, init := qp.Query()
	want := goodAttr(StateRTS)
	want.State = StateRTS
	want.QKey = 0 // not an attribute of RC
	require.Equal(t, want, got)
	require.Equal(t, QPInitAttr{
		Type: ib.RC, PD: b.pd, SendCQ: b.cq, RecvCQ: b.cq, SigAll: true, UserData: 5, QPN: qp.Number(),
		Caps: QPCaps{MaxSendWR: 3, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64},
	}, init)
	require.Equal(t, 512, qp.mtu)
	require.Equal(t, ib.SourcePort(ib.FlowLabelFromQPNs(qp.num, 0x55)), qp.path.SrcPort)

	require.NoError(t, qp.Modify(0, QPAttr{State: StateReset}, AttrState))
	got, _ = qp.Query()
	require.Equal(t, QPAttr{}, got, "RESET forgets everything")
}

func TestDestroyQPWithWindows(t *testing.T) {
	b := newBench(t)
	r, err := b.e.cfg.Mem.Register(b.pd, mem.RegionAttr{Bytes: make([]byte, 64), Access: mem.MWBind | mem.LocalWrite})
	require.NoError(t, err)
	bind := func(kind mem.WindowType, qp *QP) *mem.Window {
		w, err := b.e.cfg.Mem.AllocMW(b.pd, kind)
		require.NoError(t, err)
		require.Equal(t, mem.FaultNone, b.e.cfg.Mem.BindWR(b.pd, qp.Number(), w, mem.NextRKey(w.RKey()),
			mem.BindInfo{Region: r, Addr: r.IOVA(), Length: 8, Access: mem.RemoteRead}))
		return w
	}
	q1, q2 := b.qp(t, ib.RC, nil), b.qp(t, ib.RC, nil)
	w1, w2 := bind(mem.Type2B, q1), bind(mem.Type2A, q2)
	require.NoError(t, q1.Destroy())
	require.False(t, w1.Bound())
	require.ErrorIs(t, q2.Destroy(), mem.ErrBusy)
	require.Equal(t, q2, b.e.qps[q2.Number()], "still alive")
	require.NoError(t, w2.Dealloc(nil))
	require.NoError(t, q2.Destroy())
}
