package transport

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCQOrderAcrossWrap(t *testing.T) {
	b := newBench(t)
	cq, err := b.e.CreateCQ(3, "mine")
	require.NoError(t, err)
	require.Equal(t, "mine", cq.UserData())
	next := uint64(0)
	for round := range uint64(50) {
		for i := range uint64(3) {
			require.True(t, cq.push(b.e, &WC{ID: round*3 + i}, false))
		}
		require.Equal(t, 3, cq.Len())
		var buf [2]WC
		for cq.Len() > 0 {
			n := cq.Poll(buf[:])
			for _, wc := range buf[:n] {
				require.Equal(t, next, wc.ID)
				next++
			}
		}
		require.Zero(t, cq.Poll(buf[:]))
	}
	require.Zero(t, cq.Poll(nil))
}

// IBTA 11.6.3.1: the overflow is told once, and the CQ is of no use any more;
// what it holds can be polled.
func TestCQOverflow(t *testing.T) {
	b := newBench(t)
	cq, err := b.e.CreateCQ(2, nil)
	require.NoError(t, err)
	require.True(t, cq.push(b.e, &WC{ID: 1}, false))
	require.True(t, cq.push(b.e, &WC{ID: 2}, false))
	require.False(t, cq.push(b.e, &WC{ID: 3}, false))
	require.False(t, cq.push(b.e, &WC{ID: 4}, false))
	ev, ok := b.e.PollEvent()
	require.True(t, ok)
	require.Equal(t, EventCQError, ev.Type)
	require.Same(t, cq, ev.CQ)
	require.Empty(t, drainEvents(b.e))
	require.Equal(t, []WC{{ID: 1}, {ID: 2}}, pollAll(cq))
	require.False(t, cq.push(b.e, &WC{ID: 5}, false), "dead for good")
	require.Empty(t, drainEvents(b.e))
}

func TestCQArm(t *testing.T) {
	b := newBench(t)
	ok, bad := WC{}, WC{Status: WCFlushErr}
	for _, tc := range []struct {
		name      string
		arm       func()
		wc        WC
		solicited bool
		want      bool
	}{
		{"not armed", func() {}, ok, true, false},
		{"any", func() { b.cq.Arm(false) }, ok, false, true},
		{"solicited only, plain completion", func() { b.cq.Arm(true) }, ok, false, false},
		{"solicited only, solicited", func() { b.cq.Arm(true) }, ok, true, true},
		{"solicited only, failed", func() { b.cq.Arm(true) }, bad, false, true},
		{"any is not weakened", func() { b.cq.Arm(false); b.cq.Arm(true) }, ok, false, true},
		{"solicited is widened", func() { b.cq.Arm(true); b.cq.Arm(false) }, ok, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b.cq.armed.Store(armNone)
			tc.arm()
			require.True(t, b.cq.push(b.e, &tc.wc, tc.solicited))
			require.True(t, b.cq.push(b.e, &tc.wc, tc.solicited), "a second one makes no second event")
			var want []EventType
			if tc.want {
				want = []EventType{EventCompletion}
			}
			require.Equal(t, want, drainEvents(b.e))
			pollAll(b.cq)
		})
	}
}

func TestCQResize(t *testing.T) {
	b := newBench(t)
	cq, err := b.e.CreateCQ(4, nil)
	require.NoError(t, err)
	push := func(from, to uint64) {
		for id := from; id < to; id++ {
			require.True(t, cq.push(b.e, &WC{ID: id}, false))
		}
	}
	push(0, 4)
	require.NoError(t, cq.Resize(9))
	require.Equal(t, 9, cq.Cap())
	push(4, 9) // nothing polled yet: old and new ring hold completions
	require.Equal(t, 9, cq.Len())
	require.ErrorIs(t, cq.Resize(8), ErrBusy)
	require.NoError(t, cq.Resize(100))
	require.NoError(t, cq.Resize(9), "three rings in a row")
	var got []uint64
	for _, wc := range pollAll(cq) {
		got = append(got, wc.ID)
	}
	require.Equal(t, []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8}, got)
	require.NoError(t, cq.Resize(1))
	push(9, 10)
	require.False(t, cq.push(b.e, &WC{}, false), "the new capacity counts")
	require.Equal(t, []WC{{ID: 9}}, pollAll(cq))

	cq, err = b.e.CreateCQ(8, nil)
	require.NoError(t, err)
	require.True(t, cq.push(b.e, &WC{}, false), "there was room for eight")
	require.NoError(t, cq.Resize(1))
	require.False(t, cq.push(b.e, &WC{}, false))
}

// The ring grows when completions wait, up to the capacity, and keeps their order.
func TestCQGrows(t *testing.T) {
	const capacity = 700 // no power of two
	b := newBench(t)
	cq, err := b.e.CreateCQ(capacity, nil)
	require.NoError(t, err)
	var pushed, polled uint64
	push := func(n int) {
		for range n {
			require.True(t, cq.push(b.e, &WC{ID: pushed}, false))
			pushed++
		}
	}
	poll := func(n int) {
		wcs := make([]WC, n)
		require.Equal(t, n, cq.Poll(wcs))
		for i := range wcs {
			require.Equal(t, polled, wcs[i].ID)
			polled++
		}
	}
	for range busyCQ / 2 {
		push(minCQSlots)
		poll(minCQSlots)
	}
	require.Len(t, cq.prod.slots, minCQSlots, "there was room")
	for range busyCQ {
		push(minCQSlots)
		poll(minCQSlots)
	}
	require.Len(t, cq.prod.slots, 2*minCQSlots, "it is busy")
	rng := rand.New(rand.NewPCG(1, 2))
	for cq.Len() < capacity {
		push(rng.IntN(min(30, capacity-cq.Len()) + 1))
		poll(rng.IntN(min(20, cq.Len()) + 1))
	}
	require.Len(t, cq.prod.slots, 1024)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		cq.Poll(make([]WC, 1))
		cq.push(b.e, &WC{ID: pushed}, false)
		pushed++
		polled++
	}))
	require.False(t, cq.push(b.e, &WC{}, false), "full")
	poll(capacity)
	require.Zero(t, cq.Len())
}

func TestCQBadArguments(t *testing.T) {
	b := newBench(t)
	for _, n := range []int{0, -1, MaxCQE + 1} {
		_, err := b.e.CreateCQ(n, nil)
		requireAttr(t, err, "cqe")
		requireAttr(t, b.cq.Resize(n), "cqe")
	}
	qp := b.qp(t, 1, nil)
	require.ErrorIs(t, b.cq.Destroy(), ErrBusy)
	require.NoError(t, qp.Destroy())
	b.cq.Arm(false)
	b.cq.push(b.e, &WC{}, false)
	require.NoError(t, b.cq.Destroy())
	require.Empty(t, drainEvents(b.e), "events of a destroyed CQ are gone")
	require.ErrorIs(t, b.cq.Destroy(), ErrDestroyed)
	require.ErrorIs(t, b.cq.Resize(5), ErrDestroyed)
	require.False(t, b.cq.push(b.e, &WC{}, false))
}

// One producer, one consumer that sleeps only after arming and polling once
// more: no completion is lost, none comes twice, and no wakeup is missed.
func TestCQConcurrent(t *testing.T) {
	b := newBench(t)
	cq, err := b.e.CreateCQ(8, nil)
	require.NoError(t, err)
	const total = 20000
	var lock sync.Mutex // stands for the shell's lock of the engine
	wake := make(chan struct{}, 1)
	go func() {
		for id := uint64(0); id < total; {
			lock.Lock()
			if cq.tail-cq.head.Load() < uint64(cq.capacity) {
				cq.push(b.e, &WC{ID: id, ByteLen: uint32(id)}, false)
				id++
				if id%5000 == 0 {
					_ = cq.Resize(8 << (id / 5000)) // growing always succeeds
				}
			}
			_, ok := b.e.events.pop()
			lock.Unlock()
			if ok {
				wake <- struct{}{}
			} else {
				runtime.Gosched()
			}
		}
	}()
	var buf [3]WC
	next := uint64(0)
	for next < total {
		n := cq.Poll(buf[:])
		if n == 0 {
			cq.Arm(false)
			if n = cq.Poll(buf[:]); n == 0 {
				<-wake
				continue
			}
		}
		for _, wc := range buf[:n] {
			require.Equal(t, next, wc.ID)
			require.Equal(t, uint32(next), wc.ByteLen)
			next++
		}
		select {
		case <-wake: // the event of an Arm whose poll found something
		default:
		}
	}
	require.Zero(t, cq.Len())
}

func TestCQNoAllocs(t *testing.T) {
	b := newBench(t)
	var buf [4]WC
	wc := WC{ID: 1}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b.cq.Arm(false)
		b.cq.push(b.e, &wc, true)
		b.cq.Poll(buf[:])
		b.e.events.pop()
	}))
}
