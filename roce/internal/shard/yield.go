package shard

import "sync/atomic"

// yielder lets others run while a goroutine looks for packets again and again:
// goroutines of this process, for which the packets may be, and
// threads of others, which may send them. Where there are fewer CPUs
// than threads that look, as with both ends on one, not to do so costs a time
// slice, milliseconds, for every message.
//
// A thread that keeps the CPU longer than hoggedNs is unrelated work, so there is no yield then for
// hogPauseNs.
//
// That is for processes with one CPU, and where tryout finds it better. The kernel moves threads
// apart that want the same CPU, but not those that take turns at it in microseconds: these it keeps
// together, as the caches are warm. Where CPUs are free one would stay idle for that; where a
// neighbour has one, the two ends are best off on the other, and each finds its packet there
// without a sleep and a wake-up.
type yielder struct {
	looks        atomic.Uint32
	backoffUntil atomic.Int64 // no yield before
	compute      computing
}

// computing notices goroutines that compute. Who lets others run gets its processor back when all
// of them have had a time slice of 10 ms, and a conversation would go on at that pace. So it does
// not, most of the time: its own time slice is as long as theirs.
//
// On a busy machine it takes as long, since another process has the CPU. So the next time the CPU
// time of this process has to show who ran.
type computing struct {
	suspected bool
	until     int64 // goroutines are not let run before
}

// ran notes that letting others run took from start to end, in which the process had so much CPU
// time; it need not be known unless goroutines are suspected.
func (c *computing) ran(start, end, cpu int64) {
	took := end - start
	switch {
	case took < computesNs:
		c.suspected = false
	case !c.suspected:
		c.suspected = true
	case cpu >= took/2:
		c.until = end + took*computesRest
	}
}

// letRun lets goroutines run that stand behind the caller on its processor: one that looks for
// packets or blocks in a system call keeps it from them, until the runtime notices (20 us to 10 ms
// later). surely says that there are some. It returns the time after that. rxMu is held.
//
// A goroutine that looks does so also if none is ready: the thread that the runtime then wakes is
// at hand for the next one. One that shares the CPU has none to spare for that. Nor has one that
// serves a program in another language: whom it wakes there the kernel runs, and that thread of the
// runtime would take the look over from this one, each time.
func (s *Shard) letRun(now int64, surely bool) int64 {
	c := &s.yield.compute
	foreign := s.foreign.Load()
	switch {
	case surely && !foreign:
	case !surely && now < c.until, (foreign || !s.pace.looks(s.spin)) && !s.machine.Runnable():
		return now
	}
	if !c.suspected {
		s.machine.Gosched()
		end := s.link.Now()
		c.ran(now, end, 0)
		return end
	}
	before, _, _ := s.machine.ProcessUsage()
	s.machine.Gosched()
	end := s.link.Now()
	after, _, _ := s.machine.ProcessUsage()
	c.ran(now, end, after-before)
	return end
}

// GiveWay is called after a look that found nothing.
func (s *Shard) GiveWay() {
	if s.yield.looks.Add(1)%PollYield == 0 {
		s.machine.Gosched()
	}
	if s.machine.CPUs() == 1 {
		s.yieldCPU()
	}
}

// shareCPU is yieldCPU for who receives, where that is to be done: with one CPU, and where it is
// found out to be better. rxMu is held.
func (s *Shard) shareCPU() bool {
	if s.machine.CPUs() > 1 && !s.pace.shares(s.spin) {
		return true
	}
	return s.yieldCPU()
}

// yieldCPU lets another thread run on this CPU, if one wants to. It reports false if it does not,
// because of unrelated work: nobody can send then while this thread looks.
func (s *Shard) yieldCPU() bool {
	y := &s.yield
	start := s.link.Now()
	if start < y.backoffUntil.Load() {
		return false
	}
	s.machine.Yield()
	y.gaveWay(start, s.link.Now())
	return true
}

// gaveWay learns from how long it took to get the CPU back.
func (y *yielder) gaveWay(start, end int64) {
	if end-start > hoggedNs {
		y.backoffUntil.Store(end + hogPauseNs)
	}
}
