package verbs

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// lentPair is an end that sends, and b, on which the goroutine that waits for completions has the
// seat. On a slow machine the keeper may have taken it back by the time that somebody uses it; what
// the tests ask for holds then, too.
func lentPair(t *testing.T, ctx context.Context) (a, b *end) {
	a, b = keeperPair(t, Config{})
	for !b.d.s.Lent() {
		b.d.s.Lend(b.cq.notify)
		b.hears(t, ctx, a)
	}
	return a, b
}

// hears has a goroutine wait for a message.
func (e *end) hears(t *testing.T, ctx context.Context, from *end) {
	require.NoError(t, ctx.Err())
	require.NoError(t, e.qp.PostRecv(&RecvWR{SGList: []SGE{e.mr.SGE(0, 64)}}))
	got := e.waits(ctx)
	from.send(t)
	require.NoError(t, <-got)
	from.wait(t, ctx)
}

// waits has a goroutine wait for a completion, and returns when it is about to, with what will tell
// of the error.
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

func TestWaiterReceives(t *testing.T) {
	ctx := testContext(t)
	a, b := lentPair(t, ctx)
	for range 100 {
		b.hears(t, ctx, a)
	}
	require.Zero(t, a.d.Counters().Timeouts)
}

// A goroutine in the seat sleeps in the link, and sees all the same what ends its wait.
func TestWaiterInTheSeatIsRoused(t *testing.T) {
	t.Run("context", func(t *testing.T) {
		_, b := lentPair(t, testContext(t))
		ctx, cancel := context.WithCancel(testContext(t))
		got := b.waits(ctx)
		cancel()
		require.ErrorIs(t, <-got, context.Canceled)
	})
	t.Run("device", func(t *testing.T) {
		ctx := testContext(t)
		_, b := lentPair(t, ctx)
		got := b.waits(ctx)
		require.NoError(t, b.d.Close())
		require.ErrorIs(t, <-got, ErrClosed)
	})
	t.Run("keeper", func(t *testing.T) {
		ctx := testContext(t)
		a, b := lentPair(t, ctx)
		require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 64)}}))
		got := b.waits(ctx)
		b.d.s.Unattended()
		require.True(t, b.d.s.Background())
		a.send(t)
		require.NoError(t, <-got)
		a.wait(t, ctx)
	})
	t.Run("nobody", func(t *testing.T) { // the goroutine does something else, and the keeper looks after the peer
		ctx := testContext(t)
		a, b := lentPair(t, ctx)
		a.write(t, b)
		a.wait(t, ctx)
		require.Zero(t, a.d.Counters().Timeouts)
	})
}
