package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// twoCPUs is a machine on which a yield takes the time that ran lets pass.
type twoCPUs struct{ oneCPU }

func (*twoCPUs) CPUs() int { return 2 }

// demanded is a shard of which only looking is used, where yields take some time.
func demanded(yield *int64) (s *Shard, m *twoCPUs, l *clockLink) {
	l = &clockLink{now: 1}
	m = &twoCPUs{oneCPU{ran: func() { l.now += *yield }}}
	s = &Shard{machine: m, link: l}
	s.pace.begin(l.now)
	return s, m, l
}

// lookInVain looks until it is to sleep, and sleeps. It returns how often it looked.
func (s *Shard) lookInVain(l *clockLink) int {
	for n := 1; ; n++ {
		if l.now += 1000; !s.lookAgain(l.now, false) {
			l.now += 1_000_000
			s.pace.woke(l.now)
			return n
		}
	}
}

func (s *Shard) find(l *clockLink) {
	s.received = 1
	l.now += 1000
	s.lookAgain(l.now, true)
}

// A receiver that keeps its CPU yields once before it sleeps. If another thread ran, something may
// have come meanwhile, so it looks once more.
func TestAsksBeforeSleep(t *testing.T) {
	yield := int64(300)
	s, m, l := demanded(&yield)
	require.Equal(t, minLooks, s.lookInVain(l))
	require.Equal(t, 1, m.yields)
	s.find(l)
	yield = 20_000
	require.Equal(t, minLooks+1, s.lookInVain(l))
	require.Equal(t, 2, m.yields)
	s.spin = spinTimeOf(50_000)
	s.find(l)
	s.lookInVain(l)
	require.Equal(t, 2, m.yields, "the program has said how long to look")
}

// Where looks find nothing and others want the CPU, a receiver soon shares it, and keeps it again
// when nobody wants it.
func TestDemand(t *testing.T) {
	yield := int64(300)
	s, m, l := demanded(&yield)
	s.lookInVain(l)
	yield = 20_000
	for n := 0; !s.pace.shares(s.spin); n++ {
		require.Less(t, n, shareOf)
		s.find(l)
		s.lookInVain(l)
	}
	before := m.yields
	s.find(l)
	require.Equal(t, shareLooks, s.lookInVain(l))
	require.Equal(t, before+shareLooks, m.yields, "it lets others run before each look")

	yield = 300
	for n := 0; s.pace.shares(s.spin); n++ {
		require.Less(t, n, 3*shareOf/shareLooks)
		s.find(l)
		s.lookInVain(l)
	}
}

// Other threads that run now and then are no reason to share a CPU where looks find packets.
func TestDemandBesideLooksThatFind(t *testing.T) {
	var d demand
	require.False(t, d.yielded(300))
	for range 1000 {
		for range 3 {
			d.found()
		}
		require.True(t, d.yielded(20_000))
		require.False(t, d.exceeds)
	}
}
