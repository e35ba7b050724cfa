package shard

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A program is at work that polls, and one that posts.
func TestActivity(t *testing.T) {
	var a activity
	require.False(t, a.changed(0, 0))
	require.True(t, a.changed(1, 0))
	require.False(t, a.changed(1, 0))
	require.True(t, a.changed(1, 1))
	require.True(t, a.changed(2, 2))
	require.False(t, a.changed(2, 2))
}

// Polling proves itself by the time between calls that follow each other closely; each time that
// packets were missed it takes twice as long.
func TestAttention(t *testing.T) {
	const us = 1000
	var a attention
	a.kept()
	require.Zero(t, a.proof.Load(), "who has never missed anything")
	poll := func(from, to, step int64) (gaveWayAt int64) {
		for now := from; now < to; now += step {
			if a.called(now) {
				return now - from
			}
		}
		return -1
	}
	require.EqualValues(t, 50*us, poll(1000*us, 2000*us, 5*us))
	a.begin()
	require.EqualValues(t, 60*us, poll(3000*us, 4000*us, 20*us), "posting is no gap")
	a.begin()
	require.EqualValues(t, -1, poll(5000*us, 9000*us, 21*us), "who does something else in between")
	require.EqualValues(t, 50*us, poll(9500*us, 9600*us, 5*us))
	a.begin()
	require.EqualValues(t, -1, poll(10_000*us, 10_030*us, 10*us))
	require.EqualValues(t, 30*us, poll(12_000*us, 12_100*us, 10*us), "a pause in which it may have had no CPU")
	a.begin()
	require.EqualValues(t, -1, poll(13_000*us, 13_030*us, 10*us))
	require.EqualValues(t, 50*us, poll(13_030*us+2*int64(patience), 14_000*us+2*int64(patience), 10*us), "a long one")
	a.begin()
	a.missed()
	require.EqualValues(t, 100*us, poll(30_000*us, 31_000*us, 10*us))
	a.begin()
	a.missed()
	require.EqualValues(t, 200*us, poll(32_000*us, 33_000*us, 10*us))
	for range 100 {
		a.missed()
	}
	require.EqualValues(t, missedProofNs, a.proof.Load())
	for range 100 {
		a.kept()
	}
	a.begin()
	require.EqualValues(t, 50*us, poll(34_000*us, 35_000*us, 5*us))
}

// pollerOf is a machine with a thread that polls: it gets a share of a CPU, or sleeps.
type pollerOf struct {
	*still
	share int64 // percent
	ready bool
}

func (m *pollerOf) ThreadRan(int) int64  { return m.now * m.share / 100 }
func (m *pollerOf) ThreadReady(int) bool { return m.ready }

// A program that does not take packets since others have its CPU goes on where it was: standby
// receives for it, and nobody takes over. One that runs, or sleeps, has not polled.
func TestPutOff(t *testing.T) {
	for name, c := range map[string]struct {
		share  int64
		ready  bool
		putOff bool
	}{
		"others have the CPU": {3, true, true}, "runs": {100, true, false}, "sleeps": {0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v, s := newStill(t)
			s.machine = &pollerOf{v, c.share, c.ready}
			s.foreign.Store(true)
			s.poller.thread.Store(7)
			k := &s.keeper
			k.over = true // nobody really takes over
			naps, taken := 0, 0
			v.nap = func() {
				if v.come == nil {
					taken++
				}
				naps++
				v.now += standbyNs << min(naps, 8)
				v.come = []byte{0}
			}
			s.lookAfter()
			if !c.putOff {
				require.Equal(t, 1, naps)
				require.EqualValues(t, 2*standbyNs, s.Proof(), "it has missed a packet")
			} else {
				require.Greater(t, naps, 5)
				require.Equal(t, naps, taken, "packets wait")
				require.Zero(t, s.Proof())
			}

			// The timer that looks later decides in the same way.
			k.over = false
			k.off.Store(true)
			s.standby.on.Store(true)
			k.timer = time.AfterFunc(time.Hour, func() {})  // the test calls check
			for _, again := range []bool{false, c.putOff} { // there is nothing to compare with at first
				s.seat.lend(nil, k.polls.Load())
				s.txUsed = 1
				s.check()
				require.Equal(t, again, s.txUsed == 0)
				v.now += int64(patience)
			}
			s.keeper.stop()
		})
	}
}

// Which thread polls is asked now and then.
func TestPoller(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p poller
	p.polls(&computer{}, 1000)
	require.NotZero(t, p.thread.Load())
	p.thread.Store(0)
	p.polls(&computer{}, 1000+staleNs-1)
	require.Zero(t, p.thread.Load())
	p.polls(&computer{}, 1000+staleNs)
	require.NotZero(t, p.thread.Load())
}
