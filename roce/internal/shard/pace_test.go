package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// paced drives a pace on a clock of its own.
type paced struct {
	pace
	now  int64
	spin spinTime
	turn time.Duration // that a turn takes which finds nothing
}

func newPaced(turn time.Duration) *paced {
	p := &paced{now: 1, turn: turn}
	p.begin(p.now)
	return p
}

// look looks once, and reports whether to sleep after that.
func (p *paced) look() bool {
	p.now += int64(p.turn)
	return p.pace.looked(p.now, false, 0, p.spin)
}

// looks looks, finds nothing until it is to sleep, and returns how often.
func (p *paced) looks() int {
	for n := 1; ; n++ {
		if p.look() {
			return n
		}
	}
}

// packet handles one.
func (p *paced) packet() {
	p.now += int64(p.turn)
	p.pace.looked(p.now, true, 1, p.spin)
}

// sleep ends after a time.
func (p *paced) sleep(d time.Duration) {
	p.now += int64(d)
	p.woke(p.now)
}

// On any machine, however long its turns take.
func TestPaceLooksLongerForPacketsThatComeSoon(t *testing.T) {
	for _, turn := range []time.Duration{time.Microsecond, 4 * time.Microsecond, 100 * time.Microsecond} {
		p := newPaced(turn)
		require.Equal(t, minLooks, p.looks())
		for most := 2 * minLooks; most < maxLooks; most *= 2 {
			p.sleep(5 * turn)
			p.packet()
			require.Equal(t, most, p.looks())
		}
		p.sleep(5 * turn)
		p.packet()
		// It finds them now.
		for range 10 {
			for range maxLooks - 1 {
				require.False(t, p.look())
			}
			p.packet()
		}
		require.Equal(t, maxLooks, p.looks(), "that is the most")
		// A pause in the conversation.
		for most := maxLooks; most > minLooks; {
			p.sleep(time.Second)
			p.packet()
			most = max(most/2, minLooks)
			require.Equal(t, most, p.looks())
		}
	}
}

// A wake without a packet says nothing; the sleep goes on.
func TestPaceCountsTheWholeTimeUntilAPacket(t *testing.T) {
	p := newPaced(time.Microsecond)
	p.looks()
	for range 2 * maxLooks / minLooks {
		p.sleep(0)
		require.Equal(t, minLooks, p.looks())
	}
	p.sleep(0)
	p.packet()
	require.Equal(t, minLooks, p.looks())
}

// Who begins anew after a sleep had a packet, or gave up waiting.
func TestPaceLearnsWhenSomebodyBegins(t *testing.T) {
	p := newPaced(time.Microsecond)
	p.looks()
	p.sleep(5 * time.Microsecond)
	p.begin(p.now)
	require.Equal(t, 2*minLooks, p.looks())
}

// Where looks find something nearly always, sleeping is not tried, whatever it would bring.
func TestPaceTriesWhereLooksAreInVain(t *testing.T) {
	for _, every := range []int{2 * shareOf, 1} {
		p := newPaced(time.Microsecond)
		tried := false
		for i := range 1_000_000 {
			if i%every == 0 {
				for !p.look() {
				}
				p.sleep(time.Microsecond)
			}
			p.packet()
			tried = tried || !p.pace.looks(p.spin)
		}
		require.Equal(t, every == 1, tried)
	}
}

// Where the program says how long, it is as long.
func TestPaceExact(t *testing.T) {
	p := newPaced(time.Microsecond)
	p.spin = spinTimeOf(7 * time.Microsecond)
	for range 100_000 {
		require.Equal(t, 7, p.looks())
		p.sleep(time.Microsecond)
		p.packet()
	}
	p.spin = spinTimeOf(-1)
	require.False(t, p.pace.looks(p.spin))
	require.True(t, p.look())
}

// Where it lets others run before each look it looks a few times.
func TestPaceShares(t *testing.T) {
	p := newPaced(time.Microsecond)
	p.tryout.shared = true
	require.True(t, p.shares(p.spin))
	require.Equal(t, shareLooks, p.looks())
	p.spin = spinTimeOf(-1)
	require.False(t, p.shares(p.spin))
	require.Equal(t, 1, p.looks())
}

// Where the process stands still again and again, one that waits for one conversation shares the
// CPU. One pause says nothing, and neither do those of a sleep.
func TestPaceSharesWhereTheProcessStandsStill(t *testing.T) {
	const pause = 3 * tryoutNs
	p := newPaced(time.Microsecond)
	p.lent = true
	stand := func() {
		p.now += pause
		p.packet()
	}
	for range 3 {
		p.looks()
		p.sleep(pause)
		p.packet()
	}
	stand()
	require.False(t, p.shares(p.spin))
	for end := p.now + maxTryoutWait*tryoutNs; p.now < end; p.now += hoggedNs {
		p.packet()
	}
	stand()
	require.False(t, p.shares(p.spin), "the other was long ago")

	p = newPaced(time.Microsecond)
	p.lent = true
	stand()
	stand()
	require.True(t, p.shares(p.spin))
	require.Equal(t, shareLooks, p.looks())
	p.lent = false
	require.False(t, p.shares(p.spin), "several conversations")
	p.lent = true
	for end := p.now + maxBackOff*sliceNs; p.now < end; {
		require.True(t, p.shares(p.spin))
		p.now += hoggedNs
		p.packet()
	}
	require.False(t, p.shares(p.spin), "no longer")
}
