package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// paced drives a pace on a clock of its own.
type paced struct {
	pace
	now   int64
	fixed bool
}

const lookNs = 1_000 // a look at the link that finds nothing

func newPaced() *paced {
	p := &paced{now: 1}
	p.begin(p.now)
	return p
}

// look looks once, and reports whether to sleep after that.
func (p *paced) look(took time.Duration) bool {
	p.now += int64(took)
	return p.turn(p.now, false, 0, DefaultSpinNs, !p.fixed)
}

// looks looks in vain until it is to sleep, and returns for how long.
func (p *paced) looks() time.Duration {
	start := p.now
	for !p.look(lookNs) {
	}
	return time.Duration(p.now - start)
}

// packet handles one.
func (p *paced) packet() {
	p.now += lookNs
	p.turn(p.now, true, 1, DefaultSpinNs, !p.fixed)
}

// sleep ends after a time.
func (p *paced) sleep(d time.Duration) {
	p.now += int64(d)
	p.woke(p.now)
}

const (
	shortLook = DefaultSpinNs * time.Nanosecond
	longLook  = maxSpinNs * time.Nanosecond
)

func TestPaceLooksLongerForPacketsThatComeSoon(t *testing.T) {
	p := newPaced()
	require.Equal(t, shortLook, p.looks())
	p.sleep(5 * time.Microsecond)
	p.packet()
	// It finds them now.
	for range 10 {
		for range 40 {
			require.False(t, p.look(lookNs))
		}
		p.packet()
	}
	require.Equal(t, longLook, p.looks(), "that is the most")
	// A pause in the conversation.
	for range 2 {
		p.sleep(time.Second)
		p.packet()
		require.Equal(t, shortLook, p.looks())
	}
}

// A wake without a packet says nothing; the sleep goes on.
func TestPaceCountsTheWholeTimeUntilAPacket(t *testing.T) {
	p := newPaced()
	p.looks()
	for range 10 {
		p.sleep(longLook / 10)
		require.Equal(t, shortLook, p.looks())
	}
	p.sleep(0)
	p.packet()
	require.Equal(t, shortLook, p.looks())
}

// Who begins anew after a sleep had a packet, or gave up waiting.
func TestPaceLearnsWhenSomebodyBegins(t *testing.T) {
	p := newPaced()
	p.looks()
	p.sleep(5 * time.Microsecond)
	p.begin(p.now)
	require.Equal(t, longLook, p.looks())
}

// Now and then another thread runs for a while: no reason not to look. If they take more than a
// quarter of the time it is one.
func TestPaceGivesWay(t *testing.T) {
	p := newPaced()
	for range 100 {
		p.look(100 * time.Microsecond)
		require.Zero(t, p.again, "seldom")
		for range 1000 {
			p.packet()
		}
	}
	slice := 3 * time.Millisecond
	rests := func() time.Duration {
		for range 20 {
			if p.look(slice); p.again > p.now {
				return time.Duration(p.again - p.now)
			}
			p.packet()
		}
		return 0
	}
	for _, want := range []time.Duration{spinPauseNs, 2 * spinPauseNs, 4 * spinPauseNs, maxSpinPauseNs, maxSpinPauseNs} {
		require.Equal(t, want, rests())
		require.True(t, p.look(lookNs), "it does not look")
		p.packet()
		require.True(t, p.look(lookNs), "nor after a packet")
		p.sleep(want)
		p.packet()
		require.False(t, p.look(lookNs), "it tries again")
	}
	// Alone again, it forgets.
	for range 10_000 {
		p.packet()
	}
	require.Equal(t, time.Duration(spinPauseNs), rests())
}

// On an emulated machine everything takes longer: also the answer, and what shows that somebody
// else ran.
func TestPaceOnASlowMachine(t *testing.T) {
	const turn = 20 * usualTurnNs
	p := newPaced()
	for range 100 {
		for range 10 {
			p.look(turn)
		}
		p.sleep(time.Second)
		p.now += 10 * turn
		p.turn(p.now, true, 1, DefaultSpinNs, true)
	}
	require.InDelta(t, turn, p.glance, turn/3)
	for range 7 { // doublings
		for !p.look(turn) {
		}
		p.sleep(longLook)
		p.turn(p.now, true, 1, DefaultSpinNs, true)
	}
	for range 8 * longLook / turn {
		require.False(t, p.look(turn), "it looks as much longer")
	}
	p.packet()
	require.False(t, p.look(10*preemptedNs))
	require.Zero(t, p.lost, "that is no other")

	// It was not the machine, or no longer is.
	for range 1000 {
		p.packet()
	}
	require.EqualValues(t, maxSpinNs, p.slowly(maxSpinNs))
	p.look(2 * preemptedNs)
	require.NotZero(t, p.lost)
}

// However long turns take, there is a bound.
func TestPaceOfASlowMachineIsBounded(t *testing.T) {
	p := newPaced()
	for range 1000 {
		p.look(time.Millisecond)
		p.now += int64(10 * time.Millisecond)
		p.turn(p.now, true, 1, DefaultSpinNs, true)
	}
	require.Equal(t, int64(maxSlowness*maxSpinNs), p.slowly(maxSpinNs))
}

// Where the time is fixed it stays so, and the first turn that somebody else takes is enough.
func TestPaceFixed(t *testing.T) {
	p := newPaced()
	p.fixed = true
	for range 5 {
		require.Equal(t, shortLook, p.looks())
		p.sleep(time.Microsecond)
		p.packet()
	}
	require.True(t, p.look(2*preemptedNs))
	require.Zero(t, p.glance)
	p.sleep(spinPauseNs / 2)
	require.True(t, p.look(lookNs))
	p.sleep(spinPauseNs)
	require.False(t, p.look(lookNs))
}
