package transport

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/mem"
)

func newTestEngine(t testing.TB) *Engine {
	e, err := New(Config{
		GIDs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, MTU: ib.MTU1024,
		Mem: mem.NewTable(rand.NewChaCha8([32]byte{1}), mem.Limits{}), Rand: rand.NewChaCha8([32]byte{2}),
	})
	require.NoError(t, err)
	return e
}

// The queue against a model that looks at every timer: the same next time at
// every step, whatever is set, pushed back, pulled forward and stopped.
func TestTimerQueueModel(t *testing.T) {
	seeds.Run(t, 3, testTimerQueue)
}

func testTimerQueue(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	e := newTestEngine(t)
	qps := make([]*QP, 40)
	for i := range qps {
		qps[i] = &QP{e: e}
	}
	type key struct {
		qp *QP
		id timerID
	}
	model := map[key]int64{}
	for range 20000 {
		k := key{qps[rng.IntN(len(qps))], timerID(rng.IntN(int(numTimers)))}
		switch r := rng.IntN(10); {
		case r < 6:
			at := rng.Int64N(1000)
			k.qp.setTimer(k.id, at)
			model[k] = at
		case r < 9:
			k.qp.stopTimer(k.id)
			delete(model, k)
		default:
			k.qp.dropTimers()
			for id := timerID(0); id < numTimers; id++ {
				delete(model, key{k.qp, id})
			}
		}
		require.Equal(t, model[k] != 0 || hasKey(model, k), k.qp.timerSet(k.id))
		if rng.IntN(3) > 0 {
			continue // let stale entries gather
		}
		at, ok := e.NextTimeout()
		require.Equal(t, len(model) > 0, ok)
		if ok {
			want := int64(1000)
			for _, v := range model {
				want = min(want, v)
			}
			require.Equal(t, want, at)
		}
	}
	for _, qp := range qps {
		qp.dropTimers()
	}
	require.Empty(t, e.timers.heap)
}

func hasKey[K comparable, V any](m map[K]V, k K) bool { _, ok := m[k]; return ok }

// An entry whose timer is pushed back by every packet moves once a timeout.
func TestTimerPushBackIsAStore(t *testing.T) {
	e := newTestEngine(t)
	qp := &QP{e: e}
	qp.setTimer(timerAck, 1000)
	for at := int64(1001); at < 2000; at++ {
		qp.setTimer(timerAck, at)
		require.EqualValues(t, 1000, e.timers.heap[0].at)
	}
	at, ok := e.NextTimeout()
	require.True(t, ok)
	require.EqualValues(t, 1999, at)
}

func BenchmarkTimers(b *testing.B) {
	e := newTestEngine(b)
	qps := make([]*QP, 10000)
	for i := range qps {
		qps[i] = &QP{e: e}
	}
	b.ReportAllocs()
	now := int64(0)
	i := 0
	for b.Loop() {
		// A message each on many connections: the timer starts, is pushed back and stops.
		qp := qps[i%len(qps)]
		i++
		now += 1000
		qp.setTimer(timerAck, now+67e6)
		qp.setTimer(timerAck, now+67e6+500)
		if i%3 > 0 {
			qp.stopTimer(timerAck)
		}
		e.NextTimeout()
	}
}

// HandleTimeoutUntil runs what was due at the horizon, and not what has become due
// since; what it sets is due after now.
func TestHandleTimeoutUntil(t *testing.T) {
	e := newTestEngine(t)
	early, late := &QP{e: e}, &QP{e: e}
	early.setTimer(timerPace, 100)
	early.setTimer(timerFlight, 110)
	late.setTimer(timerPace, 120)
	e.HandleTimeoutUntil(130, 99)
	require.True(t, early.timerSet(timerPace))
	e.HandleTimeoutUntil(130, 100)
	require.False(t, early.timerSet(timerPace))
	require.True(t, early.timerSet(timerFlight), "another one of the same queue pair")
	require.True(t, late.timerSet(timerPace))
	at, ok := e.NextTimeout()
	require.True(t, ok)
	require.EqualValues(t, 110, at)
	e.HandleTimeout(130)
	_, ok = e.NextTimeout()
	require.False(t, ok)
}
