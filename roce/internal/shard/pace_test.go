package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// paced drives a pace on a clock of its own.
type paced struct {
	pace
	now int64
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
	return p.turn(p.now, false, DefaultSpinNs, !p.fixed)
}

// paid is as if a look had found something.
func (p *paced) paid() { p.trial, p.vain, p.decided = trial{}, false, false }

// looks looks in vain until it is to sleep, and returns for how long.
func (p *paced) looks() time.Duration {
	p.paid()
	start := p.now
	for !p.look(lookNs) {
	}
	return time.Duration(p.now - start)
}

// packet handles one.
func (p *paced) packet() {
	p.now += lookNs
	p.turn(p.now, true, DefaultSpinNs, !p.fixed)
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
	for _, want := range []time.Duration{shortLook, 2 * shortLook, 4 * shortLook} {
		require.Equal(t, want, p.looks())
		p.sleep(5 * time.Microsecond)
		p.packet()
	}
	// It finds them now.
	for range 10 {
		for range 150 {
			require.False(t, p.look(lookNs))
		}
		p.packet()
	}
	require.Equal(t, longLook, p.looks(), "that is the most")
	// A pause in the conversation.
	for _, want := range []time.Duration{longLook / 2, longLook / 4, shortLook, shortLook} {
		p.sleep(time.Second)
		p.packet()
		require.Equal(t, want, p.looks())
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
	require.Equal(t, 2*shortLook, p.looks())
}

// A look that ends in a sleep is in vain: the more of them in succession, the fewer are tried. One
// that finds something makes up for all.
func TestPaceLooksLessInVain(t *testing.T) {
	p := newPaced()
	looked := func() bool { // until it sleeps; then something comes at once
		start := p.now
		for !p.look(lookNs) {
		}
		took := p.now - start
		p.sleep(time.Second)
		p.packet()
		return took > lookNs
	}
	require.True(t, looked(), "one in vain happens on any machine")
	left := 0
	for skip := 0; skip < 2*maxSpinSkip; skip = min(2*skip+1, 2*maxSpinSkip) {
		require.True(t, looked())
		for left = 0; left < min(2*skip+1, maxSpinSkip); left++ {
			require.False(t, looked(), "%d of %d", left, skip)
		}
	}
	require.Equal(t, maxSpinSkip, left)
	require.False(t, p.look(lookNs), "it tries again")
	p.packet()
	for range 10 { // it found something, so the next looks are tried
		require.False(t, p.look(lookNs))
		p.packet()
	}
	require.True(t, looked())
	require.True(t, looked())
	require.False(t, looked(), "two in vain cost one")
	require.True(t, looked())
}

// On an emulated machine everything takes longer: also the answer, and what shows that somebody
// else ran.
func TestPaceOnASlowMachine(t *testing.T) {
	const turn = 20 * usualTurnNs
	p := newPaced()
	for range 100 {
		p.paid()
		for range 10 {
			p.look(turn)
		}
		p.sleep(time.Second)
		p.now += 10 * turn
		p.turn(p.now, true, DefaultSpinNs, true)
	}
	require.InDelta(t, turn, p.glance, turn/3)
	for range 7 { // doublings
		p.paid()
		for !p.look(turn) {
		}
		p.sleep(longLook)
		p.turn(p.now, true, DefaultSpinNs, true)
	}
	p.paid()
	for range 12 * longLook / turn {
		require.False(t, p.look(turn), "it looks as much longer")
	}

	// It was not the machine, or no longer is.
	for range 1000 {
		p.packet()
	}
	require.EqualValues(t, maxSpinNs, p.slowly(maxSpinNs))
}

// However long turns take, there is a bound.
func TestPaceOfASlowMachineIsBounded(t *testing.T) {
	p := newPaced()
	for range 1000 {
		p.paid()
		p.look(time.Millisecond)
		p.now += int64(10 * time.Millisecond)
		p.turn(p.now, true, DefaultSpinNs, true)
	}
	require.Equal(t, int64(maxSlowness*maxSpinNs), p.slowly(maxSpinNs))
}

// Where the time is fixed it stays so.
func TestPaceFixed(t *testing.T) {
	p := newPaced()
	p.fixed = true
	for range 5 {
		start := p.now
		for !p.look(lookNs) {
		}
		require.Equal(t, shortLook, time.Duration(p.now-start))
		p.sleep(time.Microsecond)
		p.packet()
	}
	require.Zero(t, p.glance)
}
