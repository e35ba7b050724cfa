package cc

import (
	"math"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

const us = int64(1e3)

// start returns a controller that has been running at 40 Gb/s on a port with
// room above, so that the additive increase shows.
func start(p Profile) *DCQCN {
	d := NewDCQCN(p, 100*Gbps)
	d.current, d.target = 40e9, 40e9
	return d
}

// The recovery of the paper's figure: one CNP at 40 Gb/s with alpha 1.
func TestPaperRecoveryVector(t *testing.T) {
	d := start(Paper())
	d.OnCNP(0)
	require.Equal(t, 20*Gbps, d.Rate(0))
	for i, want := range []float64{30, 35, 37.5, 38.75, 39.375} {
		at := int64(i+1) * 55 * us
		require.Equal(t, Rate(d.current), d.Rate(at-1), "no step before %d ns", at)
		require.Equal(t, Rate(want*1e9), d.Rate(at))
	}
	for i := 1; i <= 20; i++ {
		before := d.State(int64(5+i)*55*us - 1)
		after := d.State(int64(5+i) * 55 * us)
		require.Equal(t, before.Target+40*Mbps, after.Target, "additive step %d", i)
		require.Equal(t, (after.Target+before.Current)/2, after.Current)
	}
}

func TestAlphaDecay(t *testing.T) {
	d := start(Paper())
	d.OnCNP(0)
	require.Equal(t, 1.0, d.State(0).Alpha, "(1-g)*1+g")
	for _, n := range []int64{1, 2, 10, 177, 178, 1000} {
		e := start(Paper())
		e.OnCNP(0)
		require.InEpsilon(t, math.Pow(255.0/256, float64(n)), e.State(n*55*us).Alpha, 1e-12)
	}
	// Half after 177.1 periods, 9.74 ms.
	require.Greater(t, d.State(177*55*us).Alpha, 0.5)
	require.Less(t, d.State(178*55*us).Alpha, 0.5)
}

// Evaluating late gives the same as evaluating often.
func TestLazyTimersEqualEagerOnes(t *testing.T) {
	for _, p := range []Profile{Paper(), Mellanox()} {
		eager, lazy := start(p), start(p)
		for now := int64(0); now < 3e6; now += 500 {
			if now == 0 || now == 1e6 || now == 1e6+2000 || now == 2_100_500 {
				eager.OnCNP(now)
				lazy.OnCNP(now)
			}
			eager.Rate(now)
		}
		e, l := eager.State(4e6), lazy.State(4e6)
		require.InEpsilon(t, e.Alpha, l.Alpha, 1e-9, p.Name)
		require.InDelta(t, float64(e.Current), float64(l.Current), 1, p.Name)
		require.Equal(t, e.TimeSteps, l.TimeSteps)
	}
}

func TestSecondCNPUsesAlphaAndResetsRecovery(t *testing.T) {
	d := start(Paper())
	d.OnCNP(0)
	d.Rate(3 * 55 * us) // 37.5 Gb/s
	a := d.State(3 * 55 * us).Alpha
	d.OnCNP(3*55*us + 1)
	s := d.State(3*55*us + 1)
	require.Equal(t, Rate(37.5e9), s.Target)
	require.InDelta(t, 37.5e9*(1-a/2), float64(s.Current), 1)
	require.Zero(t, s.TimeSteps)
	require.Equal(t, s.Current, d.Rate(3*55*us+55*us), "the increase timer restarted")
	require.Greater(t, d.Rate(3*55*us+1+55*us), s.Current)
}

func TestByteCounter(t *testing.T) {
	d := start(Paper())
	d.OnCNP(0)
	for range 10 { // 10 MB in 1 MB pieces, all within the first timer period
		require.Equal(t, 20*Gbps, d.Rate(1))
		d.OnSend(1, 1e6)
	}
	require.Equal(t, 30*Gbps, d.Rate(1))
	require.Equal(t, 1, d.State(1).ByteSteps)
}

func TestHyperIncrease(t *testing.T) {
	d := start(Mellanox())
	d.OnCNP(0)
	for range 2 {
		d.OnSend(1, 32767*64)
	}
	require.Equal(t, Rate(40e9+5e6), d.State(1).Target, "additive: only the byte counter is past F")
	s := d.State(2 * 300 * us)
	require.Equal(t, 2, s.TimeSteps)
	require.Equal(t, Rate(40e9+5e6+5e6+50e6), s.Target, "one additive, then one hyper step")
}

func TestMellanoxCutsAtMostOncePerGap(t *testing.T) {
	d := start(Mellanox())
	d.OnCNP(0)
	first := d.Rate(0)
	require.InDelta(t, 40e9*(1-1023.0/2048), float64(first), 1)
	d.OnCNP(1 * us)
	d.OnCNP(2 * us)
	require.Equal(t, first, d.Rate(3999), "within the gap nothing is cut")
	second := d.Rate(4000)
	require.Less(t, second, first)
	require.GreaterOrEqual(t, second, first/2, "one cut is at most half")
	require.Equal(t, second, d.Rate(299*us), "three CNPs, two cuts")
}

// A CNP within the gap cuts nothing, and yet counts in alpha: once in a period.
func TestMellanoxCNPInGapRaisesAlpha(t *testing.T) {
	const g = 5.0 / 1024
	d := start(Mellanox())
	d.OnCNP(0)
	first := d.State(0).Alpha
	d.OnCNP(1) // in the same period
	require.Equal(t, first, d.State(1).Alpha)
	for period := range int64(2) {
		before := d.State((1 + period) * us).Alpha
		for i := range int64(3) {
			d.OnCNP((1+period)*us + 10*i)
			require.InEpsilon(t, (1-g)*before+g, d.State((1+period)*us+10*i).Alpha, 1e-12)
		}
	}
	require.EqualValues(t, 1, d.State(3*us).Cuts)
}

func TestRateFloorAndCeiling(t *testing.T) {
	d := NewDCQCN(Paper(), 40*Gbps)
	require.Zero(t, d.Rate(0), "no limit before the first CNP")
	for i := range int64(200) {
		d.OnCNP(i)
	}
	require.Equal(t, 20*Gbps, d.Rate(200), "no receiver sends so many")
	for i := range int64(200) {
		d.OnCNP(leastGapNs * i)
	}
	require.Equal(t, 1*Mbps, d.Rate(200*leastGapNs))
	for now := int64(200 * leastGapNs); now < 20e9; now += 1e6 {
		require.LessOrEqual(t, d.Rate(now), 40*Gbps)
		require.LessOrEqual(t, d.State(now).Target, 40*Gbps)
	}
	require.Zero(t, d.Rate(200e9), "a lone flow gets the whole line back")
}

func TestNAKCutIsAProfileSwitch(t *testing.T) {
	p := Paper()
	d := start(p)
	d.OnNAK(0)
	require.Zero(t, d.Rate(0))
	p.CutOnNAK = true
	d = start(p)
	d.OnNAK(0)
	require.Equal(t, 20*Gbps, d.Rate(0))
}

// CE on every packet for t makes floor(t/gap)+1 CNPs.
func TestNotificationGap(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for _, total := range []int64{0, 49_999, 50_000, 50_001, 1_000_000} {
		n := NewNotificationPoint(50*us, ScopeQP)
		sent := int64(0)
		for now := int64(0); now <= total; now++ {
			if n.Allow(now, 7, a, b) {
				sent++
			}
		}
		require.Equal(t, total/50_000+1, sent, "after %d ns", total)
	}
}

func TestNotificationScope(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	type flow struct {
		qpn      ib.QPN
		src, dst netip.Addr
	}
	flows := []flow{{1, a, b}, {2, a, b}, {3, a, c}, {4, b, c}}
	for scope, want := range map[Scope]int{ScopeQP: 4, ScopeDestinationIP: 2, ScopeIPPair: 3, ScopePort: 1} {
		n := NewNotificationPoint(50*us, scope)
		got := 0
		for range 2 {
			for _, f := range flows {
				if n.Allow(10, f.qpn, f.src, f.dst) {
					got++
				}
			}
		}
		require.Equal(t, want, got, "scope %d", scope)
	}
}

func TestNotificationTableIsBounded(t *testing.T) {
	n := NewNotificationPoint(50*us, ScopeQP)
	for i := range ib.QPN(3 * maxNotified) {
		n.Allow(0, i, netip.Addr{}, netip.Addr{})
	}
	require.Len(t, n.sent, maxNotified)
	require.Equal(t, uint64(2*maxNotified), n.Withheld)
	require.True(t, n.Allow(50*us, 1<<20, netip.Addr{}, netip.Addr{}), "old entries make room")
}

// A pacer's batches add up to the rate, whatever the polling interval.
func TestPacerRate(t *testing.T) {
	for _, r := range []Rate{10 * Mbps, Gbps, 40 * Gbps} {
		for _, poll := range []int64{1e3, 20e3, 64e3} {
			var p Pacer
			sent := 0
			const total = int64(100e6)
			p.Budget(0, 0)
			for now := int64(0); now < total; now += poll {
				if b := p.Budget(now, r); b > 0 {
					for b > 0 {
						p.OnSend(4148, r)
						sent += 4148
						b -= 4148
					}
				}
			}
			want := float64(r) / 8e9 * float64(total)
			// At most a saved burst, a borrowed one and a packet off.
			slack := 2*float64(r)/8e9*BurstNs + 4148
			require.InDelta(t, want, float64(sent), slack, "%d bit/s polled every %d ns", r, poll)
		}
	}
}

func TestPacerSavesOneBurstAtMost(t *testing.T) {
	var p Pacer
	require.Equal(t, MaxBudget, p.Budget(0, 0))
	idle := p.Budget(1e9, 8*Gbps)
	require.Equal(t, int(2*BurstNs), idle, "1 byte per ns: one burst saved, one borrowed")
	p.OnSend(idle, 8*Gbps)
	require.Zero(t, p.Budget(1e9, 8*Gbps))
	require.Equal(t, int64(1e9+BurstNs), p.NextAt())
}

// A timer that is late costs nothing if the QP was waiting for it, up to a
// millisecond; a QP that was idle has saved one burst.
func TestPacerLateTimer(t *testing.T) {
	const r = 8 * Gbps // 1 byte per ns
	var p Pacer
	p.Budget(0, r)
	p.OnSend(100e3, r)
	require.Zero(t, p.Budget(1, r))
	p.Hold()
	wake := p.NextAt() + 300e3
	require.Equal(t, int(300e3+BurstNs), p.Budget(wake, r))
	require.Equal(t, int(2*BurstNs), p.Budget(wake, r), "now it is not waiting any more")
	p.OnSend(100e3, r)
	p.Hold()
	require.Equal(t, int(MaxLateNs+BurstNs), p.Budget(wake+1e9, r))
	exact := Pacer{burst: -1}
	exact.Budget(0, r)
	exact.OnSend(1000, r)
	exact.Hold()
	require.Equal(t, 1, exact.Budget(1e9, r), "packet by packet")
}

func TestNoAllocs(t *testing.T) {
	var c Controller = NewDCQCN(Paper(), 40*Gbps)
	var p Pacer
	now := int64(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		now += 1000
		c.OnCNP(now)
		c.OnSend(now, 4096)
		p.OnSend(p.Budget(now, c.Rate(now)), c.Rate(now))
	}))
}
