package report

import (
	"cmp"
	"math"
	"slices"
)

// maxSplits bounds the splits that rankSum looks at one by one: two samples of 10 have 184,756.
const maxSplits = 200_000

// rankSum returns the probability that two samples of one distribution differ at least as much as a
// and b do, by the sum of their ranks (the test of Mann and Whitney, two-sided; benchstat's). It
// assumes nothing of the distribution. Small samples are compared with every way to split what was
// measured in two, so that equal values are no problem; large ones with the normal distribution
// that this comes close to. It returns 1 if a sample is empty.
func rankSum(a, b []float64) float64 {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 1
	}
	ranks, ties := midranks(a, b)
	sum := 0.0
	for _, r := range ranks[:n] {
		sum += r
	}
	mean := float64(n) * float64(n+m+1) / 2
	far := math.Abs(sum - mean)
	if splits(n+m, n) <= maxSplits {
		return exact(ranks, n, mean, far)
	}
	return approximate(n, m, ties, far)
}

// exact is the part of all sums of n ranks that are as far from the mean.
func exact(ranks []float64, n int, mean, far float64) float64 {
	all, as := 0, 0
	eachSum(ranks, n, 0, func(s float64) {
		all++
		if math.Abs(s-mean) >= far-1e-9 {
			as++
		}
	})
	return float64(as) / float64(all)
}

// approximate is exact for many ranks, by the normal distribution with their variance.
func approximate(n, m int, ties, far float64) float64 {
	total := float64(n + m)
	variance := float64(n) * float64(m) / 12 * (total + 1 - ties/(total*(total-1)))
	if variance <= 0 {
		return 1
	}
	return math.Erfc(max(far-0.5, 0) / math.Sqrt(variance) / math.Sqrt2)
}

// midranks returns the ranks of a and b together, those of a first, equal values having the mean of
// theirs, and the sum of t^3-t over the t of each such group.
func midranks(a, b []float64) (ranks []float64, ties float64) {
	all := slices.Concat(a, b)
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(all[i], all[j]) })
	ranks = make([]float64, len(all))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && all[order[j]] == all[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = float64(i+1+j) / 2
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return ranks, ties
}

// eachSum calls f with the sum of every n of ranks, plus sum.
func eachSum(ranks []float64, n int, sum float64, f func(float64)) {
	if n == 0 {
		f(sum)
		return
	}
	for i := range ranks[:len(ranks)-n+1] {
		eachSum(ranks[i+1:], n-1, sum+ranks[i], f)
	}
}

// splits is how many ways there are to take n of all.
func splits(all, n int) float64 {
	c := 1.0
	for i := range n {
		c = c * float64(all-i) / float64(i+1)
	}
	return c
}
