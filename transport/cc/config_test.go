package cc

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAlgorithmNames(t *testing.T) {
	for a := range numAlgorithms {
		got, err := ParseAlgorithm(a.String())
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	_, err := ParseAlgorithm("bbr")
	require.ErrorContains(t, err, "dcqcn-paper")
}

func TestConfigCheck(t *testing.T) {
	bad := func(edit func(*Profile)) Config {
		p := Paper()
		edit(&p)
		return Config{Profile: &p}
	}
	for name, c := range map[string]Config{
		"algorithm":  {Algorithm: numAlgorithms},
		"line":       {LineRate: -1},
		"start":      {StartRate: -1},
		"burst":      {Burst: 2 * maxBurst},
		"gain":       bad(func(p *Profile) { p.GainNum = 0 }),
		"period":     bad(func(p *Profile) { p.IncreasePeriod = 0 }),
		"alpha":      bad(func(p *Profile) { p.InitialAlpha = 2 }),
		"cut":        bad(func(p *Profile) { p.MaxCut = 1 }),
		"increase":   bad(func(p *Profile) { p.AdditiveIncrease = 0 }),
		"least rate": bad(func(p *Profile) { p.MinRate = 0 }),
		"gap":        bad(func(p *Profile) { p.DecreaseGap = -1 }),
	} {
		require.Error(t, c.Check(), name)
	}
	for a := range numAlgorithms {
		require.NoError(t, (&Config{Algorithm: a}).Check())
	}
	require.Nil(t, (&Config{}).New())
	require.Zero(t, (&Config{LineRate: Gbps}).Cap())
	require.Equal(t, Gbps, (&Config{LineRate: Gbps, Capped: true}).Cap())
	require.Equal(t, DefaultLineRate, (&Config{Capped: true}).Cap())
}

// A start rate limits from the first packet on, and is left behind by the ordinary increase.
func TestStartRate(t *testing.T) {
	c := Config{Algorithm: DCQCNPaper, LineRate: 10 * Gbps, StartRate: Gbps, CutOnNAK: true}
	d := c.New()
	const t0 = 1e12 // the clock's start means nothing
	require.Equal(t, Gbps, d.Rate(t0))
	require.Equal(t, Gbps, d.Rate(t0+5*55*us), "fast recovery is there already")
	require.Equal(t, Gbps+20*Mbps, d.Rate(t0+6*55*us))
	d.OnNAK(t0 + 6*55*us)
	require.Equal(t, (Gbps+20*Mbps)/2, d.Rate(t0+6*55*us))
	require.EqualValues(t, 1, d.State(t0+6*55*us).Cuts)
	require.Zero(t, d.Rate(t0+60e9))
}

// A table full of young entries is not searched again before one can be old.
func TestNotificationFloodDoesNotSearch(t *testing.T) {
	n := NewNotificationPoint(50*us, ScopeIPPair)
	for i := range maxNotified {
		require.True(t, n.Allow(int64(i), 1, addrOf(i), addrOf(i)))
	}
	require.False(t, n.Allow(maxNotified, 1, addrOf(-1), addrOf(-1)))
	require.Equal(t, 50*us, n.scanAt, "when the oldest is over")
	require.False(t, n.Allow(50*us-1, 1, addrOf(-1), addrOf(-1)))
	require.True(t, n.Allow(50*us, 1, addrOf(-1), addrOf(-1)))
	require.Len(t, n.sent, maxNotified)
}

func addrOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}
