package verbs

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// ledPair is an end that somebody talks to, one message at a time, and b, on which the goroutine that waits for these
// receives for itself.
func ledPair(t *testing.T, ctx context.Context) (a, b *end) {
	a, b = keeperPair(t, Config{})
	b.converse(t, ctx, a)
	return a, b
}

// converse has from send messages that somebody on e waits for, until that one receives for itself.
func (e *end) converse(t *testing.T, ctx context.Context, from *end) {
	for !e.d.s.Led() {
		require.NoError(t, e.qp.PostRecv(&RecvWR{SGList: []SGE{e.mr.SGE(0, 64)}}))
		got := e.waits(ctx)
		from.send(t)
		require.NoError(t, <-got)
		from.wait(t, ctx)
	}
}

// waits has somebody wait for a completion, and returns when it is about to, with what will tell of the error.
func (e *end) waits(ctx context.Context) <-chan error {
	got := make(chan error, 1)
	go func() {
		var wcs [1]WC
		n, err := e.cq.Wait(ctx, wcs[:])
		if n > 0 {
			err = WCError(&wcs[0])
		}
		got <- err
	}()
	for e.cq.waiters.Load() == 0 && len(got) == 0 {
		runtime.Gosched()
	}
	return got
}

// until waits until something is so that happens by itself.
func until(t *testing.T, ctx context.Context, so func() bool) {
	t.Helper()
	for !so() {
		require.NoError(t, ctx.Err())
		runtime.Gosched()
	}
}

// leads has somebody wait who receives meanwhile. On a slow machine the goroutine of the device has taken over before: then
// that one gets a message, and it begins again.
func (e *end) leads(t *testing.T, ctx, waits context.Context, from *end) <-chan error {
	for {
		got := e.waits(waits)
		until(t, ctx, func() bool { return e.d.s.Leads() || e.d.s.Background() })
		if e.d.s.Leads() {
			return got
		}
		require.NoError(t, e.qp.PostRecv(&RecvWR{SGList: []SGE{e.mr.SGE(0, 64)}}))
		from.send(t)
		require.NoError(t, <-got)
		from.wait(t, ctx)
		e.converse(t, ctx, from)
	}
}

// Who is the only one that is talked to receives for itself, and what it waits for comes to it.
func TestWaiterReceives(t *testing.T) {
	ctx := testContext(t)
	a, b := ledPair(t, ctx)
	require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}}))
	got := b.leads(t, ctx, ctx, a)
	require.False(t, b.d.s.Background())
	a.send(t)
	require.NoError(t, <-got)
	require.False(t, b.d.s.Leads())
	a.wait(t, ctx) // whoever sends the acknowledgement
	require.Zero(t, a.d.Counters().Timeouts)
}

// One that receives for itself sees its context end, and others complete what it waits for.
func TestLeaderIsRoused(t *testing.T) {
	ctx := testContext(t)
	t.Run("context", func(t *testing.T) {
		a, b := ledPair(t, ctx)
		for range 3 {
			waits, cancel := context.WithCancel(ctx)
			got := b.leads(t, ctx, waits, a)
			cancel()
			require.ErrorIs(t, <-got, context.Canceled)
		}
	})
	t.Run("one context for many", func(t *testing.T) {
		a, b := ledPair(t, ctx)
		waits, cancel := context.WithCancel(ctx)
		for range 3 {
			require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}}))
			got := b.waits(waits)
			a.send(t)
			require.NoError(t, <-got)
			a.wait(t, ctx)
		}
		got := b.leads(t, ctx, waits, a)
		cancel()
		require.ErrorIs(t, <-got, context.Canceled)
	})
	t.Run("flushed", func(t *testing.T) {
		a, b := ledPair(t, ctx)
		require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}}))
		got := b.leads(t, ctx, ctx, a)
		require.NoError(t, b.qp.Modify(QPAttr{State: StateErr}, AttrState))
		require.Error(t, <-got)
	})
	t.Run("queue closed", func(t *testing.T) {
		a, b := ledPair(t, ctx)
		got := b.leads(t, ctx, ctx, a)
		require.NoError(t, b.qp.Close())
		require.NoError(t, b.cq.Close())
		require.ErrorIs(t, <-got, ErrClosed)
	})
	t.Run("device closed", func(t *testing.T) {
		a, b := ledPair(t, ctx)
		got := b.leads(t, ctx, ctx, a)
		require.NoError(t, b.d.Close())
		require.ErrorIs(t, <-got, ErrClosed)
	})
}

// When who receives for itself does something else, and never comes back, its peers are answered all the same.
func TestLeaderGoesAway(t *testing.T) {
	ctx := testContext(t)
	a, b := ledPair(t, ctx)
	for range 3 {
		a.write(t, b)
		a.wait(t, ctx)
	}
	until(t, ctx, b.d.s.Background)
	require.Zero(t, a.d.Counters().Timeouts)

	b.converse(t, ctx, a)
	until(t, ctx, b.d.s.Background) // also when nothing comes
	a.write(t, b)
	a.wait(t, ctx)
}

// What comes for others reaches them while somebody receives for itself, and the goroutine of the device takes over if
// that goes on.
func TestLeaderAndOthers(t *testing.T) {
	ctx := testContext(t)
	a, b := ledPair(t, ctx)
	a2, b2 := newEnd(t, a.d, 4096, QPInitAttr{}), newEnd(t, b.d, 4096, QPInitAttr{})
	connect(t, a2, b2, withTimeout(20, 7))
	first := b.waits(ctx)
	for range 100 {
		require.NoError(t, b2.qp.PostRecv(&RecvWR{SGList: []SGE{b2.mr.SGE(0, 64)}}))
		got := b2.waits(ctx)
		a2.send(t)
		require.NoError(t, <-got)
		a2.wait(t, ctx)
	}
	require.Empty(t, first)
	require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}}))
	a.send(t)
	require.NoError(t, <-first)
	a.wait(t, ctx)
	require.Zero(t, a.d.Counters().Timeouts)
}

// Two ends talk, each with its own goroutine that receives, while others wait, poll, end their waits and post. Nobody waits for
// ever, nothing is lost.
func TestLeadersRace(t *testing.T) {
	ctx := testContext(t)
	rounds := 5000
	if testing.Short() {
		rounds = 500
	}
	a, b := keeperPair(t, Config{})
	a2, b2 := newEnd(t, a.d, 4096, QPInitAttr{}), newEnd(t, b.d, 4096, QPInitAttr{})
	connect(t, a2, b2, withTimeout(20, 7))
	stop := make(chan struct{})
	var others sync.WaitGroup
	for _, f := range []func(){
		func() { // waits that are broken off, on a queue that nothing comes for
			waits, cancel := context.WithCancel(ctx)
			got := b2.waits(waits)
			cancel()
			<-got
		},
		func() { // somebody else's work
			a2.write(t, b2)
			a2.wait(t, ctx)
		},
		func() {
			var wcs [1]WC
			_, _ = b2.cq.Poll(wcs[:])
			runtime.Gosched()
		},
		func() { b.cq.notify.Set() },
	} {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	talk := func(x *end, first bool) error {
		var wcs [1]WC
		post := func() error {
			return x.qp.PostSend(&SendWR{Opcode: WRSend, SGList: []SGE{x.mr.SGE(64, 64)}})
		}
		for i := range rounds {
			if err := x.qp.PostRecv(&RecvWR{SGList: []SGE{x.mr.SGE(0, 64)}}); err != nil {
				return err
			}
			if first || i > 0 {
				if err := post(); err != nil {
					return err
				}
			}
			if _, err := x.cq.Wait(ctx, wcs[:]); err != nil {
				return err
			}
		}
		if first {
			return nil
		}
		return post()
	}
	done := make(chan error, 1)
	require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}})) // there before the first message
	go func() { done <- talk(b, false) }()
	require.NoError(t, talk(a, true))
	require.NoError(t, <-done)
	close(stop)
	others.Wait()
}
