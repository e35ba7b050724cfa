package sockio

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func newPoller(t *testing.T) *Poller {
	p, err := NewPoller()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// woken polls with somebody's wake at hand.
func woken(t *testing.T, p *Poller, timeout time.Duration) {
	p.Wake()
	require.NoError(t, p.Poll(p.First(), timeout))
}

func TestPollerTimesOut(t *testing.T) {
	p := newPoller(t)
	require.NoError(t, p.Poll(p.First(), 0))
	for _, d := range []time.Duration{time.Nanosecond, time.Millisecond, 3 * time.Millisecond} {
		start := time.Now()
		require.NoError(t, p.Poll(p.First(), d))
		require.GreaterOrEqual(t, time.Since(start), d)
	}
}

// The timer is for many polls: it is set when it has passed, and when it is too late.
func TestPollerKeepsTheTimer(t *testing.T) {
	p := newPoller(t)
	woken(t, p, time.Hour)
	at := p.at
	for range 10 {
		woken(t, p, 2*time.Hour)
		require.Equal(t, at, p.at)
	}
	woken(t, p, time.Minute)
	require.Less(t, p.at, at)
}

// A timer that was for an earlier poll does not end one.
func TestPollerSleepsOn(t *testing.T) {
	p := newPoller(t)
	for range 5 {
		woken(t, p, time.Millisecond)
		start := time.Now()
		require.NoError(t, p.Poll(p.First(), 10*time.Millisecond))
		require.GreaterOrEqual(t, time.Since(start), 10*time.Millisecond)
	}
	for range 50 {
		woken(t, p, 20*time.Microsecond)
		for time.Since(p.start) <= p.at {
			runtime.Gosched()
		}
		var told atomic.Bool
		ended := make(chan bool, 1)
		go func() {
			_ = p.Poll(p.First(), -1)
			ended <- told.Load()
		}()
		for range 100 {
			runtime.Gosched()
		}
		told.Store(true)
		p.Wake()
		require.True(t, <-ended, "nobody had woken it")
	}
}

func TestPollerAllocatesNothing(t *testing.T) {
	p := newPoller(t)
	fds := p.First()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = p.Poll(fds, 2*time.Microsecond)
		_ = p.Poll(fds, time.Microsecond)
	}))
}
