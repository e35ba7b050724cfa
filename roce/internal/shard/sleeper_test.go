package shard

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// thread is a sleeper that says of itself what a test wants.
type thread struct {
	number  int
	refuses bool
	inside  bool
	busy    int
	watches atomic.Bool
	link    *virtual // nil: idle
}

func (t *thread) Thread() int { return t.number }
func (t *thread) Watch(core.Lender, []int) bool {
	t.watches.Store(!t.refuses)
	return !t.refuses
}
func (t *thread) Inside() bool       { return t.inside }
func (t *thread) Busy() int          { return t.busy }
func (t *thread) Forget(core.Lender) { t.watches.Store(false) }
func (t *thread) Idle() bool         { return len(t.link.came) == 0 }

// The channels of one thread are one who waits, and those of two are not.
func TestLeaseIsForAThread(t *testing.T) {
	a, b, c, unknown := signalOf(&thread{number: 7}), signalOf(&thread{number: 7}),
		signalOf(&thread{number: 8}), signalOf(&thread{})
	require.True(t, a.same(a) && a.same(b) && unknown.same(unknown))
	require.False(t, a.same(c) || a.same(unknown) || unknown.same(signalOf(&thread{})))
	require.False(t, a.same(nil) || a.same(NewSignal()) || NewSignal().same(a))

	var l lease
	l.turn(1, a)
	for range leaseTurns / 2 {
		require.False(t, l.lends())
		l.turn(1, b)
		l.turn(1, a, b)
	}
	require.True(t, l.lends())
	l.begin()
	l.turn(1, b)
	require.False(t, l.over)
	l.turn(1, c)
	require.True(t, l.over)
}

// Threads that wait by a descriptor and keep many messages under way leave the seat to the keeper.
// One inside a call of rsockets does not, whose credits are messages behind others.
func TestLeaseOfAThreadIsForConversations(t *testing.T) {
	for _, tt := range []struct {
		inside bool
		every  int // turns for a message behind others
		lends  bool
	}{{false, 1, false}, {false, 2, false}, {false, 8, true}, {true, 1, true}} {
		var l lease
		sig, every, lends := signalOf(&thread{number: 7, inside: tt.inside}), tt.every, tt.lends
		l.turn(1, sig)
		for i := range 4 * leaseTurns {
			if i%every == 0 {
				l.posted()
			}
			l.turn(1, sig)
		}
		require.Equal(t, lends, l.lends(), "%d", every)
		l.begin()
		for i := range 4 * leaseTurns {
			if i%every == 0 {
				l.posted()
			}
			l.turn(1, sig)
		}
		require.Equal(t, lends, !l.over)
	}
}

// A thread inside a call that waits for many connections answers each that came, behind the last
// answer, which is not acknowledged yet. More than that is no conversation.
func TestLeaseOfAThreadWithManyConnections(t *testing.T) {
	for more, lends := range map[int]bool{0: true, 2 * rxBatch: false} {
		var l lease
		sig := signalOf(&thread{number: 7, inside: true})
		for range leaseTurns + 1 {
			l.turn(4*leaseBehind, sig)
			l.turn(4*leaseBehind, sig) // before the thread returns
			for range 8*leaseBehind + more {
				l.posted()
			}
		}
		l.turn(1, sig)
		require.Equal(t, lends, l.lends())
	}
}

// virtual is a link, and a machine, in the time of a bubble. It notes how long packets wait.
type virtual struct {
	*still
	came  chan time.Time // packets
	wake  chan struct{}
	worst time.Duration
	sent  int
	taken int
	ran   atomic.Int64 // CPU time of the thread
	ready bool         // it runs, or would
	queue bool         // goroutines are ready
	ways  int          // how often they were let run
	cpus  int
}

func (v *virtual) Now() int64                 { return time.Now().UnixNano() }
func (v *virtual) Descriptors() []int         { return nil }
func (v *virtual) Attend()                    {}
func (v *virtual) Watch(func(link.PortState)) {}
func (v *virtual) Returned() edge.Returned    { return edge.Returned{} }
func (v *virtual) CPUs() int                  { return max(v.cpus, 1) }
func (v *virtual) Nap(d time.Duration)        { time.Sleep(d) }
func (v *virtual) Runnable() bool             { return v.queue }
func (v *virtual) Yield()                     {}
func (v *virtual) ThreadRan(int) int64        { return v.ran.Load() }
func (v *virtual) ThreadReady(int) bool       { return v.ready }
func (v *virtual) Gosched() {
	v.ways++
	runtime.Gosched()
}
func (v *virtual) Recv(batch []transport.RxPacket) (int, error) {
	n := 0
	for ; n < len(v.came) && n < len(batch); n++ {
		v.worst = max(v.worst, time.Since(<-v.came))
		batch[n].Data = []byte{0}
	}
	v.taken += n
	return n, nil
}

func (v *virtual) Wake() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

func (v *virtual) Wait(timeout time.Duration) error {
	if timeout < 0 {
		timeout = time.Hour
	}
	select {
	case at := <-v.came:
		v.came <- at // nothing else came in between
	case <-v.wake:
	case <-time.After(timeout):
	}
	return nil
}

// lent returns a shard whose keeper has had enough reasons to lend the seat to a thread.
func (v *virtual) lent(t *testing.T, who *thread) *Shard {
	still, s := newStill(t)
	v.still, v.came, v.wake, who.link = still, make(chan time.Time, 8), make(chan struct{}, 1), v
	s.link, s.machine, s.pollable = v, v, v
	s.foreign.Store(true)
	s.keep()
	synctest.Wait()
	s.mu.Lock()
	s.lease.last, s.lease.turns = signalOf(who), leaseTurns
	s.mu.Unlock()
	v.come()
	synctest.Wait()
	require.Equal(t, !who.refuses, s.Lent() && who.watches.Load())
	return s
}

func (v *virtual) come() {
	v.sent++
	v.came <- time.Now()
}

// A thread that has the seat and does something else keeps nobody waiting for longer than two
// periods, or some more if it only lacks a CPU. Time is that of a bubble.
func TestNobodyWaitsForASleeper(t *testing.T) {
	const step, looks = leasePeriod / 10, leasePeriod / 2
	for name, c := range map[string]struct {
		cpu     int // percent of one that it gets, or would
		ready   bool
		busy    time.Duration // it looks as often for so long
		refuses bool
		bound   time.Duration
	}{
		"computes":           {100, true, 0, false, 2 * leasePeriod},
		"sleeps in a call":   {0, false, 0, false, 2 * leasePeriod},
		"sleeps later":       {0, false, 20 * leasePeriod, false, 2 * leasePeriod},
		"computes later":     {100, true, 20 * leasePeriod, false, 2 * leasePeriod},
		"lacks a CPU":        {3, true, 0, false, 2*leasePeriod + sliceNs},
		"lacks a CPU later":  {3, true, 20 * leasePeriod, false, 2*leasePeriod + sliceNs},
		"closed the channel": {0, false, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for offset := range time.Duration(10) { // when a packet comes
				synctest.Test(t, func(t *testing.T) {
					v, who := &virtual{ready: c.ready}, &thread{number: 7, refuses: c.refuses}
					s := v.lent(t, who)
					spend := func(d time.Duration) {
						for range d / step {
							v.ran.Add(int64(step) * int64(c.cpu) / 100)
							time.Sleep(step)
							synctest.Wait()
						}
					}
					for spent := time.Duration(0); spent < c.busy; spent += looks {
						spend(looks)
						v.come()
						s.Glance()
						require.True(t, s.Lent() && who.watches.Load())
					}
					spend(offset * step)
					v.come()
					spend(20 * leasePeriod)
					require.Equal(t, v.sent, v.taken)
					require.LessOrEqual(t, v.worst, c.bound)
					require.False(t, s.Lent() || who.watches.Load())
					s.mu.Lock()
					require.NotZero(t, s.lease.need, "a mistake")
					s.mu.Unlock()
					s.End(nil)
					s.keeper.stop()
				})
			}
		})
	}
}

// A lease ends when nothing comes, which is no mistake, and with the shard.
func TestSleeperWithNothingToDo(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			v, who := &virtual{}, &thread{number: 7}
			s := v.lent(t, who)
			if closes {
				s.End(nil)
			} else {
				time.Sleep(2 * leasePeriod)
				synctest.Wait()
				s.mu.Lock()
				require.Zero(t, s.lease.need)
				s.mu.Unlock()
			}
			require.False(t, s.Lent() || who.watches.Load())
			s.End(nil)
			s.keeper.stop()
		})
	}
}

// Those that have waited for each other do not wait for the last few.
func TestAnswersDoNotWaitForTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, who := &virtual{}, &thread{number: 7, inside: true, busy: crowdSize + 1}
		s := v.lent(t, who)
		s.mu.Lock()
		for range crowdSize + 1 {
			s.Posted(v.Now(), false, 64)
			require.True(t, s.posts.waiting())
		}
		who.busy = 2
		s.Posted(v.Now(), false, 64)
		require.False(t, s.posts.waiting())
		for range crowdSize {
			s.Posted(v.Now(), false, 64)
			require.True(t, s.posts.waiting())
		}
		s.Posted(v.Now(), false, 64)
		require.False(t, s.posts.waiting())
		s.mu.Unlock()
		s.End(nil)
		s.keeper.stop()
	})
}

// A thread of C that looks keeps its processor of Go's runtime, unless there is only one CPU. To
// let goroutines run, a goroutine that is bound to its thread hands the processor to another
// thread, which hands it back: four system calls and two wake-ups.
func TestThreadKeepsItsProcessor(t *testing.T) {
	for cpus, ways := range map[int]int{1: 1, 2: 0} {
		synctest.Test(t, func(t *testing.T) {
			v, who := &virtual{queue: true, cpus: cpus}, &thread{number: 7, inside: true}
			s := v.lent(t, who)
			before := v.ways
			s.Await(func() bool { return true }, true)
			require.Equal(t, ways, v.ways-before, "%d CPUs", cpus)
			s.End(nil)
			s.keeper.stop()
		})
	}
}

func signalOf(by core.Sleeper) *Signal { return new(Shard).SleeperSignal(nil, by) }

// Answers of threads wait for each other until no more are to come; if that never is, for two
// periods.
func TestAnswersOfThreadsWaitForEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		inside  bool
		busy    int
		waits   bool
		another bool // thread waits when no more are to come
	}{
		"alone":    {true, 1, false, false},
		"two":      {true, 2, true, true},
		"one away": {true, 2, true, false},
		"outside":  {false, 2, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, who := &virtual{}, &thread{number: 7, inside: c.inside, busy: c.busy}
				s := v.lent(t, who)
				waiting := func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.posts.waiting()
				}
				for range 2 { // one more than a look has seen
					s.Await(func() bool { return true }, true)
					require.Equal(t, c.waits && s.posts.seen > 0, waiting(), "others are to come")
					s.mu.Lock()
					s.Posted(v.Now(), false, 64)
					s.mu.Unlock()
					require.Equal(t, c.waits, waiting())
				}
				if c.another {
					who.busy = 0
					s.Await(func() bool { return true }, true)
					require.False(t, waiting())
				}
				time.Sleep(2 * leasePeriod)
				synctest.Wait()
				require.False(t, waiting())
				s.End(nil)
				s.keeper.stop()
			})
		})
	}
}
