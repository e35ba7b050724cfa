package shard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/link"
)

func TestYielder(t *testing.T) {
	var y yielder
	y.gaveWay(1000, 1500)
	y.gaveWay(1000, 1000+8_000)
	require.Zero(t, y.backoffUntil.Load(), "a peer, or nobody")

	const slice = 4_000_000
	now := int64(staleNs)
	fails := func() (rest int64) {
		y.gaveWay(now, now+slice)
		now = y.backoffUntil.Load()
		return y.backoff.Load()
	}
	require.EqualValues(t, slice, fails(), "somebody who used a time slice")
	require.EqualValues(t, 2*slice, fails(), "and again")
	for range 3 {
		fails()
	}
	require.EqualValues(t, staleNs, fails())
	now += slice * computesRest
	require.EqualValues(t, slice, fails(), "most yields found the peer")
}

// Goroutines that compute are not let run for a while, once it is sure that it was they who ran.
func TestComputingGoroutinesAreNotLetRun(t *testing.T) {
	const ms = 1_000_000
	var c computing
	now := int64(0)
	ran := func(took, cpu int64) bool {
		require.GreaterOrEqual(t, now, c.until)
		c.ran(now, now+took, cpu)
		now += took
		rests := c.until > now
		now = max(now, c.until)
		return rests
	}
	require.False(t, ran(20*ms, 0), "it may have been another process")
	require.True(t, c.suspected)
	require.False(t, ran(20*ms, 1*ms), "it was")
	require.True(t, ran(20*ms, 19*ms))
	require.True(t, ran(20*ms, 19*ms), "they still do")
	require.False(t, ran(7*ms, 7*ms))
	require.False(t, c.suspected, "they have ended")
	require.False(t, ran(20*ms, 20*ms))
	require.False(t, ran(ms/1000, ms/1000))
	require.False(t, ran(20*ms, 20*ms), "now and then is no reason")
}

// Who serves a program in another language lets goroutines run only if some are ready: the thread
// that the runtime wakes at each turn would take its place.
func TestForeignKeepsItsThread(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		v, s := newStill(t)
		s.spin = spinTime{} // it looks
		s.foreign.Store(foreign)
		m := &turns{still: v}
		s.machine = m
		require.True(t, s.pace.looks(s.spin))
		s.letRun(v.now)
		want := 1
		if foreign {
			want = 0
		}
		require.Equal(t, want, m.n)
		m.ready = true
		s.letRun(v.now)
		require.Equal(t, want+1, m.n)
		s.yield.compute.until = v.now + 1
		s.letRun(v.now)
		require.Equal(t, want+1, m.n, "goroutines compute")
	}
}

// turns counts how often goroutines are let run.
type turns struct {
	*still
	ready bool
	n     int
}

func (m *turns) Gosched()       { m.n++ }
func (m *turns) Runnable() bool { return m.ready }

// oneCPU is a machine with one CPU on which unrelated work runs for a time slice whenever it may.
type oneCPU struct {
	computer
	yields int
	ran    func()
}

func (*oneCPU) CPUs() int { return 1 }
func (m *oneCPU) Yield()  { m.yields++; m.ran() }

// ShortSlices leaves those of the test alone.
func (*oneCPU) ShortSlices(bool) {}

// With one CPU who looks gives way, until unrelated work takes it; from then on looking is of no
// use for a while, and is not asked for.
func TestOneCPU(t *testing.T) {
	l := &clockLink{}
	m := &oneCPU{ran: func() { l.now += 1000 }}
	s := &Shard{machine: m, link: l}
	for range 10 {
		require.True(t, s.shareCPU())
	}
	require.Equal(t, 10, m.yields)
	m.ran = func() { l.now += 4_000_000 }
	require.True(t, s.shareCPU())
	require.False(t, s.shareCPU())
	require.Equal(t, 11, m.yields)
	l.now += staleNs
	require.True(t, s.shareCPU())
}

// Where more threads of a program poll than half of the CPUs, each lets others run.
func TestPollersGiveWay(t *testing.T) {
	for _, polled := range []bool{false, true} {
		_, s := newStill(t)
		m := &twoCPUs{oneCPU{ran: func() {}}}
		s.machine = m
		s.foreign.Store(true)
		s.keeper.background.Store(!polled)
		s.Progress(1)
		require.Zero(t, m.yields, "the peer has the other CPU")
		s.Progress(2)
		require.Equal(t, 1, m.yields)
	}
}

// clockLink is a link of which only the clock is used.
type clockLink struct {
	link.Link
	now int64
}

func (l *clockLink) Now() int64 { return l.now }
