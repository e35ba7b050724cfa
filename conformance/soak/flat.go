package soak

import "fmt"

// limit is how much a value may grow: a tenth, and a constant.
type limit struct {
	name  string
	slack int
	value func(*Sample) int
}

// limits are what is watched at the rests. The constants are what a run of the collector or
// of the scheduler more or less makes.
var limits = []limit{
	{"heap bytes", 1 << 20, func(s *Sample) int { return s.HeapBytes }},
	{"resident bytes", 8 << 20, func(s *Sample) int { return s.ResidentBytes }},
	{"goroutines", 2, func(s *Sample) int { return s.Goroutines }},
	{"threads", 4, func(s *Sample) int { return s.Threads }},
	{"descriptors", 2, func(s *Sample) int { return s.Descriptors }},
	{"slots of the address", 0, func(s *Sample) int { return s.Slots }},
	{"protection domains", 0, func(s *Sample) int { return s.PDs }},
	{"memory regions", 8, // of the pools of connections that last: as many as were needed at a time
		func(s *Sample) int { return s.Regions }},
	{"entries of the CM's tables", 2, func(s *Sample) int { return s.CMTables }},
}

// trend is how a value went: the largest of the first third, of all, and of the last third.
type trend struct {
	name              string
	first, most, last int
	grew              bool
}

func (t trend) String() string {
	s := fmt.Sprintf("%-27s first third %12d   last third %12d   most %12d", t.name, t.first, t.last, t.most)
	if t.grew {
		s += "   GREW"
	}
	return s
}

// warmup is how many of n samples come before the first third: pools and tables fill up.
func warmup(n int) int { return min(n/10+1, n) }

// thirds returns the first third of what was sampled after the warm-up, and the last one.
func thirds(all []Sample) (first, last []Sample) {
	all = all[warmup(len(all)):]
	n := len(all) / 3
	return all[:n], all[len(all)-n:]
}

// trends compares the thirds of what was sampled after the warm-up. Fewer than three samples have
// none.
func trends(all []Sample) []trend {
	early, late := thirds(all)
	if len(early) == 0 {
		return nil
	}
	all = all[warmup(len(all)):]
	out := make([]trend, len(limits))
	for i, l := range limits {
		most := func(samples []Sample) (m int) {
			for i := range samples {
				m = max(m, l.value(&samples[i]))
			}
			return m
		}
		t := trend{name: l.name, first: most(early), most: most(all), last: most(late)}
		t.grew = t.last > t.first+t.first/10+l.slack
		out[i] = t
	}
	return out
}
