package verbs

import (
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// heldPair is a sender that runs by itself, and a receiver that polls, on which receives are
// posted. On a slow machine nothing is sent again: no loss probe after 1 ms, no retry before 4 s.
func heldPair(t *testing.T, recvs int, alone bool) (a, b *end) {
	tuning := transport.Tuning{LossProbe: -1}
	a = newEnd(t, openDevice(t, Config{Tuning: tuning}), 1<<12, QPInitAttr{})
	b = newEnd(t, openDevice(t, Config{Tuning: tuning, Polling: true, alone: alone}), 1<<12, QPInitAttr{})
	connect(t, a, b, withTimeout(20, 7))
	for range recvs {
		require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}}))
	}
	return a, b
}

func (e *end) send(t testing.TB) {
	require.NoError(t, e.qp.PostSend(&SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{e.mr.SGE(64, 64)}}))
}

// An answer that follows at once leaves in one datagram with the acknowledgement of what it
// answers.
func TestAnswerWithAcknowledgement(t *testing.T) {
	ctx := testContext(t)
	const rounds = 20
	a, b := heldPair(t, rounds, true)
	before := b.d.LinkStats()
	for range rounds {
		require.NoError(t, a.qp.PostRecv(&RecvWR{SGList: []SGE{a.mr.SGE(0, 64)}}))
		a.send(t)
		for b.wait(t, ctx).Opcode != WCRecv { // a completion of the answer before
		}
		require.True(t, b.d.s.AckDelayed())
		b.send(t)
		require.False(t, b.d.s.AckDelayed())
		a.wait(t, ctx)
		a.wait(t, ctx)
	}
	after := b.d.LinkStats()
	require.EqualValues(t, rounds, after.TxCalls-before.TxCalls)
	require.EqualValues(t, rounds, after.TxDatagrams-before.TxDatagrams)
	require.GreaterOrEqual(t, after.TxPackets-before.TxPackets, uint64(2*rounds))
}

// A request and its answer are a datagram each: the request has the acknowledgement of the answer
// before.
func TestRoundTripDatagrams(t *testing.T) {
	ctx := testContext(t)
	const rounds = 20
	var ends [2]*end
	for i := range ends {
		d := openDevice(t, Config{Tuning: transport.Tuning{LossProbe: -1}, Polling: true, alone: true})
		ends[i] = newEnd(t, d, 1<<12, QPInitAttr{})
	}
	connect(t, ends[0], ends[1], withTimeout(20, 7))
	for _, e := range ends {
		for range rounds {
			require.NoError(t, e.qp.PostRecv(&RecvWR{SGList: []SGE{e.mr.SGE(0, 64)}}))
		}
	}
	before := [2]link.Stats{ends[0].d.LinkStats(), ends[1].d.LinkStats()}
	for range rounds {
		for i, e := range ends {
			e.send(t)
			for ends[1-i].wait(t, ctx).Opcode != WCRecv { // a completion of what it sent before
			}
		}
	}
	for i, e := range ends {
		s := e.d.LinkStats()
		require.EqualValues(t, rounds, s.TxDatagrams-before[i].TxDatagrams)
		require.EqualValues(t, rounds, s.TxCalls-before[i].TxCalls)
		require.EqualValues(t, 2*rounds-1+i, s.TxPackets-before[i].TxPackets)
	}
}

// Without an answer, the next poll acknowledges; and it is tried less and less often.
func TestHoldInVain(t *testing.T) {
	ctx := testContext(t)
	const n = 100
	a, b := heldPair(t, n, true)
	var wcs [1]WC
	for range n {
		a.send(t)
		b.wait(t, ctx)
		_, err := b.cq.Poll(wcs[:])
		require.NoError(t, err)
		require.False(t, b.d.s.AckDelayed())
		a.wait(t, ctx)
	}
	require.EqualValues(t, 6, b.d.s.AckDelays(), "after 1, 3, 7, 15, 31 and 63")
}

// An application that neither sends nor polls does not leave its peer waiting.
func TestHoldIsGuarded(t *testing.T) {
	ctx := testContext(t)
	a, b := heldPair(t, 3, false)
	for range 3 {
		b.d.s.ForgetVainDelays()
		a.send(t)
		b.wait(t, ctx)
		a.wait(t, ctx)
	}
}

// Whatever ends a queue pair acknowledges what its application has been given.
func TestHoldEndsBeforeQP(t *testing.T) {
	ctx := testContext(t)
	for name, end := range map[string]func(*end) error{
		"close":  func(b *end) error { return b.qp.Close() },
		"reset":  func(b *end) error { return b.qp.Modify(QPAttr{State: StateReset}, AttrState) },
		"device": func(b *end) error { return b.d.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := heldPair(t, 1, true)
			a.send(t)
			b.wait(t, ctx)
			require.True(t, b.d.s.AckDelayed())
			require.NoError(t, end(b))
			a.wait(t, ctx)
		})
	}
}

// An event-driven device acknowledges by itself.
func TestHoldOfEventDriven(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, 1<<12, Config{})
	const n = 50
	for range n {
		require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}}))
	}
	for range n {
		a.send(t)
		b.wait(t, ctx)
		a.wait(t, ctx)
	}
}
