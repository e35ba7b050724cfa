package sockio

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/unix"
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
	p.doze = nil
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

// ready returns the descriptors of a poll that one of the link's ends at once.
func ready(t *testing.T, p *Poller) []unix.PollFd {
	w, err := NewWaker()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	w.Wake()
	return append(p.First(), unix.PollFd{Fd: int32(w.FD()), Events: unix.POLLIN})
}

// A descriptor that ends every poll while nothing is done costs no CPU: the poller naps before it
// looks at it again. A link that gets something done is not slowed down.
func TestPollerNaps(t *testing.T) {
	p := newPoller(t)
	fds := ready(t, p)
	naps, looks := 0, 0
	p.ppoll = func(fds []unix.PollFd, timeout *unix.Timespec, mask *unix.Sigset_t) (int, error) {
		if len(fds) == 1 {
			naps++
		} else {
			looks++
		}
		return unix.Ppoll(fds, timeout, mask)
	}
	p.doze = p.ppoll
	const rounds = 40
	for i := range rounds {
		p.Worked(uint64(i))
		require.NoError(t, p.Poll(fds, -1))
		require.NotZero(t, fds[2].Revents)
	}
	require.Equal(t, [2]int{0, rounds}, [2]int{naps, looks})
	for range rounds {
		p.Worked(rounds - 1)
		require.NoError(t, p.Poll(fds, -1))
		require.NotZero(t, fds[2].Revents)
	}
	require.Equal(t, [2]int{rounds - MaxVain + 1, 2 * rounds}, [2]int{naps, looks})

	// A wake ends a nap, and a time that is up, too. A poll that does not wait does not nap.
	p.Wake()
	require.NoError(t, p.Poll(fds, -1))
	require.Zero(t, fds[2].Revents)
	require.False(t, p.woken.Load())
	require.NoError(t, p.Poll(fds, time.Nanosecond))
	require.Zero(t, fds[2].Revents)
	before := naps
	require.NoError(t, p.Poll(fds, 0))
	require.NotZero(t, fds[2].Revents)
	require.Equal(t, before, naps)

	// When it does not end polls any more, nothing naps.
	fds[2].Fd = -1
	require.NoError(t, p.Poll(fds, 2*NapTime))
	before = naps
	require.NoError(t, p.Poll(fds, NapTime))
	require.Equal(t, before, naps)
}

// A kernel without memory for a poll of many descriptors is asked again, after a nap.
func TestPollerWithoutMemory(t *testing.T) {
	p := newPoller(t)
	fds := ready(t, p)
	naps, fails := 0, 3
	p.ppoll = func(fds []unix.PollFd, timeout *unix.Timespec, mask *unix.Sigset_t) (int, error) {
		if len(fds) == 1 {
			naps++
		} else if fails > 0 {
			fails--
			return 0, unix.ENOMEM
		}
		return unix.Ppoll(fds, timeout, mask)
	}
	p.doze = p.ppoll
	for range 3 {
		require.NoError(t, p.Poll(fds, -1))
		require.Zero(t, fds[2].Revents)
	}
	require.Equal(t, 2, naps)
	require.NoError(t, p.Poll(fds, -1))
	require.NotZero(t, fds[2].Revents)
	for _, errno := range []unix.Errno{unix.EINVAL, unix.EFAULT} {
		p.ppoll = func([]unix.PollFd, *unix.Timespec, *unix.Sigset_t) (int, error) { return 0, errno }
		p.doze = p.ppoll
		require.ErrorIs(t, p.Poll(fds, -1), errno)
	}
}

// A descriptor that somebody else has closed is an error, and not a poll that ends for ever.
func TestPollerDescriptorClosed(t *testing.T) {
	p := newPoller(t)
	fds := append(p.First(), unix.PollFd{Fd: 1 << 20, Events: unix.POLLIN})
	require.ErrorIs(t, p.Poll(fds, -1), unix.EBADF)
}

// A doze that finds nothing goes on as a poll, for the rest of the time; half of the processors
// doze.
func TestPollerDozes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	p := newPoller(t)
	dozes, polls := 0, 0
	p.doze = func(fds []unix.PollFd, timeout *unix.Timespec, mask *unix.Sigset_t) (n int, err error) {
		dozes++
		for {
			if n, err = rawPpoll(fds, timeout, mask); err != unix.EINTR {
				return n, err
			}
		}
	}
	p.ppoll = func(fds []unix.PollFd, timeout *unix.Timespec, mask *unix.Sigset_t) (int, error) {
		polls++
		p.Wake()
		return unix.Ppoll(fds, timeout, mask)
	}
	require.NoError(t, p.Poll(p.First(), time.Hour))
	require.NotZero(t, dozes)
	require.NotZero(t, polls)
	polls = 0
	woken(t, p, -1)
	require.Zero(t, polls)

	p.doze = func([]unix.PollFd, *unix.Timespec, *unix.Sigset_t) (int, error) { return 0, unix.EINTR }
	woken(t, p, -1) // the signal of a garbage collection
	require.NotZero(t, polls)

	polls, dozes = 0, 0
	require.True(t, beginDoze())
	require.True(t, beginDoze())
	defer func() { endDoze(); endDoze() }()
	require.False(t, beginDoze())
	woken(t, p, -1)
	require.Equal(t, [2]int{0, 1}, [2]int{dozes, polls})
}

// A signal does not end a poll, and leaves the timer set for one that comes later.
func TestPollerSignal(t *testing.T) {
	p := newPoller(t)
	p.doze = nil
	woken(t, p, time.Hour)
	signals := 2
	p.ppoll = func(fds []unix.PollFd, timeout *unix.Timespec, mask *unix.Sigset_t) (int, error) {
		if signals--; signals >= 0 {
			return 0, unix.EINTR
		}
		p.Wake()
		return unix.Ppoll(fds, timeout, mask)
	}
	require.NoError(t, p.Poll(p.First(), -1))
	require.Equal(t, -1, signals)
	require.NotZero(t, p.set.Value)
}

// A poll that does not wait does not, whatever a nap has waited for.
func TestPollerDoesNotWait(t *testing.T) {
	p := newPoller(t)
	var waits []unix.Timespec
	p.ppoll = func(_ []unix.PollFd, timeout *unix.Timespec, _ *unix.Sigset_t) (int, error) {
		waits = append(waits, *timeout)
		return 0, nil
	}
	for range 2 {
		fds, left := p.First(), time.Hour
		_, err := p.nap(fds, &left)
		require.NoError(t, err)
		require.NoError(t, p.Poll(fds, 0))
	}
	nap := unix.NsecToTimespec(int64(NapTime))
	require.Equal(t, []unix.Timespec{nap, {}, nap, {}}, waits)
}
