package report

import (
	"math"
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRankSum(t *testing.T) {
	up := func(from, n int) (x []float64) {
		for i := range n {
			x = append(x, float64(from+i))
		}
		return x
	}
	for _, c := range []struct {
		a, b []float64
		p    float64
	}{
		{up(0, 5), up(5, 5), 2.0 / 252}, // the farthest apart that five and five can be
		{up(0, 4), up(4, 4), 2.0 / 70},
		{up(0, 3), up(3, 3), 2.0 / 20}, // never less than 0.05
		{up(0, 5), up(0, 5), 1},
		{[]float64{1, 1, 1}, []float64{1, 1, 1, 1}, 1},
		{[]float64{1, 3, 5, 7}, []float64{2, 4, 6, 8}, 0.6857}, // U = 6: R, wilcox.test
		{[]float64{1, 2, 2, 3}, []float64{3, 4, 5, 6}, 4.0 / 70},
		{nil, up(0, 5), 1},
	} {
		require.InDelta(t, c.p, rankSum(c.a, c.b), 1e-4, "%v %v", c.a, c.b)
		require.InDelta(t, c.p, rankSum(c.b, c.a), 1e-4)
	}
	// What is used for large samples is close to the exact value.
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		a, b := make([]float64, 9), make([]float64, 9)
		for i := range a {
			a[i], b[i] = float64(rng.IntN(30)), float64(rng.IntN(30)+rng.IntN(10))
		}
		ranks, ties := midranks(a, b)
		sum := 0.0
		for _, r := range ranks[:9] {
			sum += r
		}
		far := math.Abs(sum - 9*19/2.0)
		require.InDelta(t, exact(ranks, 9, 9*19/2.0, far), approximate(9, 9, ties, far), 0.02)
	}
	require.Equal(t, 1.0, approximate(20, 20, 40*40*40-40, 0), "all equal")
	require.Less(t, rankSum(up(0, 30), up(20, 30)), 1e-6)
	require.Greater(t, rankSum(up(0, 30), up(1, 30)), 0.5)
}

// Two samples of one distribution differ as often as Alpha says, and no more.
func TestRankSumOfTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	differ := 0
	const tries = 2000
	for range tries {
		var x [2][]float64
		for i := range x {
			for range 5 {
				x[i] = append(x[i], rng.NormFloat64())
			}
		}
		if rankSum(x[0], x[1]) < Alpha {
			differ++
		}
	}
	require.LessOrEqual(t, differ, int(1.3*Alpha*tries))
	require.Greater(t, differ, tries/100)
}

func run(rounds map[string][]float64) *Report {
	r := &Report{Rounds: 5, RoundMs: 80}
	for _, name := range []string{"goodput", "CPU", "sent again"} {
		c := Case{Item: "single", Name: "WRITE " + name}
		for _, v := range rounds[name] {
			c.Add(name, "u", v)
		}
		r.Cases = append(r.Cases, c)
	}
	return r
}

func TestComparison(t *testing.T) {
	old := run(map[string][]float64{
		"goodput": {10, 11, 12, 13, 14}, "CPU": {1, 1.1, 1.2, 1.3, 1.4}, "sent again": {0, 0, 0, 0, 0},
	})
	now := run(map[string][]float64{
		"goodput": {20, 24, 23, 22, 21}, "CPU": {1.05, 1.15, 1.2, 1.3, 1.35}, "sent again": {0, 0, 0, 0, 0},
	})
	now.Cases = append(now.Cases, Case{Item: "single", Name: "new"})
	ds := compare(old, now)
	require.Len(t, ds, 3)
	require.True(t, ds[0].Differs())
	require.InDelta(t, 22.0/12-1, ds[0].Change(), 1e-9)
	require.False(t, ds[1].Differs())
	text := string(Comparison(old, now, CompareOptions{}))
	require.Contains(t, text,
		"| single: WRITE goodput | goodput, u | 12.0 ± 17 % | 22.0 ± 9 % | +83.3 % | p=0.008 n=5+5 |")
	require.NotContains(t, text, "WRITE CPU")
	require.Contains(t, text, "1 of 3 figures differ (p < 0.05). By chance alone about 0 would.")
	text = string(Comparison(old, now, CompareOptions{All: true, Figures: regexp.MustCompile("CPU|again")}))
	require.Contains(t, text, "| single: WRITE CPU | CPU, u | 1.20 ± 17 % | 1.20 ± 13 % | ~ | p=")
	require.Contains(t, text, "| single: WRITE sent again | sent again, u | 0 | 0 | ~ | p=1.000 n=5+5 |")
	require.NotContains(t, text, "goodput")
	few := run(map[string][]float64{"goodput": {1, 2, 3}})
	few.Rounds = 3
	require.Contains(t, string(Comparison(few, few, CompareOptions{Cases: regexp.MustCompile("WRITE g")})),
		"So few rounds cannot show a difference")
}
