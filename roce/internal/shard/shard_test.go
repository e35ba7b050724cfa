package shard

import (
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// still is what a shard runs on that nobody has started: the link and the machine, as a test says.
type still struct {
	link.Link
	computer
	now     int64
	wakes   int
	blocked bool
	marks   int
	caught  bool
	come    []byte // the next packet
	wait    func()
	gosched func()
	nap     func()
}

func newStill(t *testing.T) (*still, *Shard) {
	v, seed := &still{now: 1000, caught: true}, [32]byte{}
	s, err := New(Config{
		Link: v, Base: v, Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Table: mem.NewTable(rand.NewChaCha8(seed), mem.Limits{}), Rand: rand.NewChaCha8(seed), Owner: owner{}, Spin: -1,
	})
	require.NoError(t, err)
	require.Same(t, v, s.machine)
	return v, s
}

func (v *still) MTU() ib.MTU                     { return ib.MTU1024 }
func (v *still) Capabilities() link.Capabilities { return link.Capabilities{} }
func (v *still) Now() int64                      { return v.now }
func (v *still) Wake()                           { v.wakes++ }
func (v *still) Blocked() bool                   { return v.blocked }
func (v *still) Mark()                           { v.marks++ }
func (v *still) CaughtUp() bool                  { return v.caught }
func (v *still) Send([]transport.TxPacket)       {}
func (v *still) Returned() edge.Returned         { return edge.Returned{} }
func (v *still) Recv(batch []transport.RxPacket) (int, error) {
	if v.come == nil {
		return 0, nil
	}
	batch[0].Data, v.come = v.come, nil
	return 1, nil
}
func (v *still) Wait(time.Duration) error      { v.wait(); return nil }
func (v *still) Close() error                  { return nil }
func (owner) Completed(*transport.CQ)          {}
func (owner) Event(transport.Event)            {}
func (owner) PortChanged(_, _ *link.PortState) {}
func (owner) Failed(error)                     {}
func (v *still) Gosched()                      { v.gosched() }
func (v *still) Nap(time.Duration)             { v.nap() }
func (v *still) Runnable() bool                { return v.gosched != nil }
func (v *still) Lock(mu *sync.Mutex)           { mu.Lock() }

// owner is an owner that is told nothing.
type owner struct{}

func (owner) Close() {}

// A call waits until all is handled that had come, and the goroutine that sleeps is woken for it,
// once.
func TestAfterArrivals(t *testing.T) {
	v, s := newStill(t)
	calls := 0
	s.blocked = true
	for range 2 {
		require.True(t, s.AfterArrivals(func() { calls++ }))
		require.Equal(t, 1, v.wakes)
		require.False(t, s.blocked)
	}
	v.caught = false
	for range 2 {
		_, err := s.progress(Never)
		require.NoError(t, err)
		require.Equal(t, [2]int{1, 0}, [2]int{v.marks, calls})
	}
	v.caught = true
	for range 2 {
		_, err := s.progress(Never)
		require.NoError(t, err)
		require.Equal(t, [2]int{1, 2}, [2]int{v.marks, calls})
	}
}

// The goroutine is woken for a timer that is due before it would wake, and when the link is full.
func TestNoteTimers(t *testing.T) {
	v, s := newStill(t)
	s.blocked, s.wakeTime = true, math.MaxInt64
	s.noteTimers()
	require.Zero(t, v.wakes, "no timer is never before another")
	require.True(t, s.blocked)
	v.blocked = true
	s.noteTimers()
	require.Equal(t, 1, v.wakes)
	require.False(t, s.blocked)
	s.noteTimers()
	require.Equal(t, 1, v.wakes)
}

// A timer that was stopped, or set for later, is not due any more, and waits for nothing.
func TestTimersDue(t *testing.T) {
	_, s := newStill(t)
	s.nextTimer.Store(100)
	require.True(t, s.timersDue(100))
	s.horizon.set = true
	require.True(t, s.timersDue(100))
	require.True(t, s.horizon.set)
	require.False(t, s.timersDue(99))
	require.False(t, s.horizon.set)
}

// A timer that is due runs when a look after that has found nothing.
func TestLookBeforeTimers(t *testing.T) {
	v, s := newStill(t)
	s.nextTimer.Store(100)
	busy, err := s.progress(Never)
	require.NoError(t, err)
	require.True(t, busy)
	require.Equal(t, 1, v.marks)
	require.False(t, s.horizon.set)
	require.EqualValues(t, int64(math.MaxInt64), s.nextTimer.Load(), "there was none")
}

// For a program in another language it is known whether only answers came.
func TestOnlyAnswersCame(t *testing.T) {
	v, s := newStill(t)
	s.foreign.Store(true)
	for _, op := range []ib.Opcode{ib.RCAcknowledge, ib.RCSendOnly} {
		v.come = make([]byte, ib.BTHBytes+4+ib.ICRCBytes)
		v.come[0] = byte(op)
		_, err := s.progress(Never)
		require.NoError(t, err)
		require.Equal(t, op == ib.RCAcknowledge, s.answered, op)
	}
}

// A shard that is closed has ended.
func TestCloseEnds(t *testing.T) {
	_, s := newStill(t)
	require.False(t, s.Closed())
	for range 2 {
		require.NoError(t, s.Close())
		require.True(t, s.Closed())
		<-s.Done()
		require.ErrorIs(t, s.Lock(), ErrClosed)
	}
}

// What was sent is let go of.
func TestForgetSent(t *testing.T) {
	_, s := newStill(t)
	s.tx[0].Path, s.txUsed = &transport.Path{}, 1
	s.forgetSent()
	require.Nil(t, s.tx[0].Path)
	require.Zero(t, s.txUsed)
}

// A program that comes back sends what waits.
func TestProgressSends(t *testing.T) {
	_, s := newStill(t)
	s.keeper.background.Store(true)
	require.True(t, s.posts.add(0, 10))
	s.Progress(1)
	require.False(t, s.posts.waiting())
}

// A program in another language may poll other queues before it replies.
func TestPollsEndAckDelay(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		v, s := newStill(t)
		s.foreign.Store(foreign)
		require.True(t, s.ack.begin(v.now, true))
		v.now += attentionGapNs - 1
		s.Poll(Never)
		require.Equal(t, foreign, s.ack.delayed())
		v.now++
		s.Poll(Never)
		require.False(t, s.ack.delayed())
	}
}

// Who leaves the seat sets the timer that has let it sit, unless somebody else receives by then.
func TestGetUpSetsTheTimer(t *testing.T) {
	for name, c := range map[string]struct{ resting, background, over, sets bool }{
		"the timer rests":       {resting: true, sets: true},
		"it does not":           {},
		"the keeper is at work": {resting: true, background: true},
		"the shard is closed":   {resting: true, over: true},
	} {
		_, s := newStill(t)
		sig := NewSignal()
		s.seat = seat{heir: sig, taken: true, resting: c.resting}
		s.keeper.background.Store(c.background)
		s.keeper.over = c.over
		fires := make(chan struct{}, 1)
		s.keeper.timer = time.AfterFunc(time.Hour, func() { fires <- struct{}{} })
		s.keeper.timer.Stop()
		s.getUp(sig)
		require.False(t, s.seat.taken)
		if !c.sets {
			require.False(t, s.keeper.timer.Stop(), name)
			continue
		}
		select {
		case <-fires:
		case <-time.After(2 * time.Minute):
			t.Fatal("it does not fire")
		}
	}
}

// Who sits receives until the signal is set: by what comes while it sleeps, or by those that it
// lets run before.
func TestSit(t *testing.T) {
	for _, runs := range []bool{false, true} {
		v, s := newStill(t)
		sig, sleeps := NewSignal(), 0
		v.wait = func() {
			sleeps++
			v.now += 5000
			sig.Set()
		}
		if runs {
			v.gosched = sig.Set
		}
		s.seat.lend(sig, 0)
		s.heir.Store(sig)
		done, err := s.sit(context.Background(), sig)
		require.NoError(t, err)
		require.True(t, done)
		require.False(t, sig.isSet())
		require.Equal(t, runs, sleeps == 0)
		require.Equal(t, !runs, s.pace.woken == 6000)
		require.False(t, s.seat.taken)
	}
}

// Without a delay none was fruitless.
func TestNoDelay(t *testing.T) {
	var a delayedAck
	require.False(t, a.fruitless())
	require.Zero(t, a.penalty)
	require.True(t, a.begin(0, true))
	require.True(t, a.fruitless())
	require.NotZero(t, a.penalty)
}

// What comes during a delay does not prolong it.
func TestDelayNotProlonged(t *testing.T) {
	var a delayedAck
	require.True(t, a.begin(5, true))
	require.True(t, a.begin(6, true))
	require.EqualValues(t, 5, a.since.Load())
	a.answered()
	require.True(t, a.begin(7, true))
	require.EqualValues(t, 7, a.since.Load())
}
