package soak

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latency counts exchanges by how many microseconds they took: eight buckets for each power of two.
type latency [8 * 32]atomic.Int64

func (l *latency) add(d time.Duration) {
	us := uint64(max(d.Microseconds(), 0))
	i := int(us)
	if e := bits.Len64(us); e > 4 {
		i = 8*(e-4) + int(us>>(e-4))
	}
	l[min(i, len(l)-1)].Add(1)
}

// take returns the counts, and begins anew.
func (l *latency) take() (n []int64) {
	for i := range l {
		if v := l[i].Swap(0); v > 0 {
			n = append(n, make([]int64, i+1-len(n))...)
			n[i] = v
		}
	}
	return n
}

// bucketTop is below which time the exchanges of bucket i were.
func bucketTop(i int) time.Duration {
	us := i + 1
	if i >= 16 {
		us = (i%8 + 9) << (i/8 - 1)
	}
	return time.Duration(us) * time.Microsecond
}

// within returns how long the fastest of them took, up to a share: an eighth too long at most. 0 if
// there were none.
func within(samples []Sample, share float64) time.Duration {
	var n, all int64
	var sum [len(latency{})]int64
	for i := range samples {
		for j, v := range samples[i].Exchanges {
			sum[j] += v
			all += v
		}
	}
	for j, v := range sum {
		if n += v; v > 0 && float64(n) >= share*float64(all) {
			return bucketTop(j)
		}
	}
	return 0
}
