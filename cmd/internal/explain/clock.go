package explain

import (
	"fmt"
	"math"
	"time"
)

// clock is the difference between the clocks of two captures: that of the second one minus that of
// the first one.
//
// A packet that went from the first place to the second took some time, so the difference is less
// than what the two captures have as its time; one that went back says the reverse. The shortest
// ways in both directions leave the least room between them, and the middle of that is the
// estimate. If no constant fits between them, or a slope leaves far more room for both ways, the
// clocks drift. How wrong the estimate can be is what any other line that fits says, if both clocks
// run evenly.
type clock struct {
	t0, base int64   // of the first capture; a coarse difference
	offset   float64 // at t0, beyond base
	drift    float64 // what the second clock gains, of the time that passes
	room     float64 // half of the room; negative if packets come before they are sent
	wrong    float64 // by how much the estimate is wrong at most, in the time of the samples
	samples  [2]int  // packets from the first place to the second, and back
}

// sample is a packet that both captures have.
type sample struct {
	at, diff int64 // by the first clock; time by the second minus by the first
	back     bool  // from the second place to the first
}

// maxDrift is how fast clocks may drift apart: those of machines are good to 1e-4.
const maxDrift = 5e-4

// estimate makes the clock of samples, of which there is one at least.
func estimate(samples []sample) *clock {
	c := &clock{t0: samples[0].at, base: samples[0].diff}
	type point struct{ t, d float64 }
	var ways [2][]point
	for _, s := range samples {
		w := 0
		if s.back {
			w = 1
		}
		ways[w] = append(ways[w], point{float64(s.at - c.t0), float64(s.diff - c.base)})
		c.samples[w]++
	}
	// bounds are between which lines of a slope have to be at t0.
	bounds := func(slope float64) (low, high float64) {
		low, high = math.Inf(-1), math.Inf(1)
		for _, p := range ways[0] {
			high = min(high, p.d-slope*p.t)
		}
		for _, p := range ways[1] {
			low = max(low, p.d-slope*p.t)
		}
		return low, high
	}
	low, high := bounds(0)
	if len(ways[0]) == 0 || len(ways[1]) == 0 {
		// One way only: the delay cannot be told from the difference. The shortest is taken for
		// none.
		c.room = math.Inf(1)
		if c.offset = high; len(ways[0]) == 0 {
			c.offset = low
		}
		return c
	}
	// The room is a concave function of the slope.
	from, to := -maxDrift, maxDrift
	for range 80 {
		a, b := from+(to-from)/3, to-(to-from)/3
		la, ha := bounds(a)
		lb, hb := bounds(b)
		if ha-la < hb-lb {
			from = a
		} else {
			to = b
		}
	}
	slope := (from + to) / 2
	if l, h := bounds(slope); h-l > 0 && h-l > 2*(high-low) {
		low, high, c.drift = l, h, slope
	}
	c.offset, c.room = (low+high)/2, (high-low)/2
	// What else would fit: lines of other slopes, too.
	var began, ended float64
	for _, w := range ways {
		for _, p := range w {
			began, ended = min(began, p.t), max(ended, p.t)
		}
	}
	c.wrong = max(c.room, 0)
	edge := func(out float64) float64 { // the last slope that fits, towards out
		in := c.drift
		for range 40 {
			if l, h := bounds((in + out) / 2); h >= l {
				in = (in + out) / 2
			} else {
				out = (in + out) / 2
			}
		}
		return in
	}
	if c.room > 0 {
		least, most := edge(-maxDrift), edge(maxDrift)
		const slopes = 32
		for k := range slopes + 1 {
			slope := least + (most-least)*float64(k)/slopes
			l, h := bounds(slope)
			for _, t := range []float64{began, ended} {
				at := (slope - c.drift) * t
				c.wrong = max(c.wrong, h+at-c.offset, c.offset-l-at)
			}
		}
	}
	return c
}

// first turns a time of the second clock into one of the first.
func (c *clock) first(ns int64) int64 {
	return c.t0 + int64(math.Round((float64(ns-c.t0-c.base)-c.offset)/(1+c.drift)))
}

// text says what the difference is, and how sure that is. The names are those of the files.
func (c *clock) text(a, b string) string {
	d := c.base + int64(math.Round(c.offset))
	word := "ahead of"
	if d < 0 {
		d, word = -d, "behind"
	}
	if math.IsInf(c.room, 1) {
		return fmt.Sprintf("Packets went one way only, so that the difference of the clocks cannot be told from the time that packets take. The clock of %s is taken for %v %s that of %s, as if the fastest of %s had taken no time.",
			b, time.Duration(d), word, a, count(c.samples[0]+c.samples[1], "packet"))
	}
	s := fmt.Sprintf("The clock of %s is %v %s that of %s", b, time.Duration(d), word, a)
	if c.room < 0 {
		return s + fmt.Sprintf(", by estimate, but does not run evenly with it: packets seem to come %v before they are sent. One of the clocks was set meanwhile, or a capture has wrong times.", time.Duration(-c.room))
	}
	s += fmt.Sprintf(", give or take %v", duration(int64(math.Ceil(c.wrong))))
	if c.drift != 0 {
		word := "gains"
		if c.drift < 0 {
			word = "loses"
		}
		s += fmt.Sprintf(", and %s %v a second", word, time.Duration(math.Round(math.Abs(c.drift)*1e9)))
	}
	return s + fmt.Sprintf(
		". That is from %s one way and %d the other that both files have: the shortest times leave no more room.",
		count(c.samples[0], "packet"), c.samples[1])
}
