package analyse

import "math/bits"

// histogram counts times by size: 32 buckets for each power of two, 3 % wide.
type histogram struct {
	n        int
	min, max int64
	bucket   map[uint16]int
}

const subBits = 5

func bucketOf(v int64) uint16 {
	u := uint64(max(v, 0))
	if u < 1<<subBits {
		return uint16(u)
	}
	e := bits.Len64(u) - subBits - 1
	return uint16(e+1)<<subBits | uint16(u>>e)&(1<<subBits-1)
}

// bucketValue is the middle of a bucket.
func bucketValue(b uint16) int64 {
	if b < 1<<subBits {
		return int64(b)
	}
	e := int(b>>subBits) - 1
	low := (int64(1)<<subBits | int64(b&(1<<subBits-1))) << e
	return low + int64(1)<<e/2
}

func (h *histogram) add(v int64) {
	if v < 0 {
		return
	}
	if h.bucket == nil {
		h.bucket = make(map[uint16]int)
		h.min = v
	}
	h.n++
	h.min, h.max = min(h.min, v), max(h.max, v)
	h.bucket[bucketOf(v)]++
}

// percentiles reads the histogram out.
func (h *histogram) percentiles() Percentiles {
	p := Percentiles{Count: h.n, Min: h.min, Max: h.max}
	if h.n == 0 {
		return p
	}
	want := [...]struct {
		at  int
		dst *int64
	}{{(h.n*50 + 99) / 100, &p.P50}, {(h.n*90 + 99) / 100, &p.P90}, {(h.n*99 + 99) / 100, &p.P99}}
	seen, i := 0, 0
	for b := uint16(0); i < len(want) && int(b) < 64<<subBits; b++ {
		seen += h.bucket[b]
		for i < len(want) && seen >= want[i].at {
			*want[i].dst = min(max(bucketValue(b), h.min), h.max)
			i++
		}
	}
	return p
}
