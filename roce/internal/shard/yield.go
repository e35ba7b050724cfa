package shard

import "sync/atomic"

// yielder lets others run while a goroutine looks for packets again and again: goroutines of this
// process, which the packets may be for, and threads of other processes, which may send them. Where
// more threads look than there are CPUs, as with both ends on one, every message would otherwise
// cost a time slice, milliseconds.
//
// A thread that keeps the CPU longer than hoggedNs is unrelated work. There is then no yield for as
// long as it ran; if yields go on to cost more than one part in computesRest of the time, for twice
// as long each time, up to staleNs. A receiver that sleeps meanwhile is mostly woken on the CPU of
// its peer, away from that work.
//
// Threads yield only in processes with one CPU, and where tryout finds it better. The kernel moves
// threads apart that want the same CPU, but keeps those together that take turns at it in
// microseconds, as the caches are warm. Where CPUs are free, one would stay idle for that. Where a
// neighbour has one, both ends do best on the other: each finds its packet there without a sleep
// and a wake-up.
type yielder struct {
	looks        atomic.Uint32
	backoffUntil atomic.Int64 // no yield before
	backoff      atomic.Int64 // how long there was none the last time, ns
	compute      computing
}

// computing notices goroutines that compute. A receiver that lets others run gets its processor
// back only after each of them has had a time slice of 10 ms, and a conversation would go on at
// that pace. So most of the time it does not let them run: its own time slice is as long as theirs.
//
// On a busy machine the same delay occurs because another process has the CPU. So when the delay
// comes a second time, the CPU time of this process must show who ran.
type computing struct {
	suspected bool
	until     int64 // goroutines are not let run before
}

// ran notes that letting others run took from start to end, and how much CPU time the process had
// meanwhile; cpu counts only while goroutines are suspected.
func (c *computing) ran(start, end, cpu int64) {
	took := end - start
	switch {
	case took < sliceNs:
		c.suspected = false
	case !c.suspected:
		c.suspected = true
	case cpu >= took/2:
		c.until = end + took*computesRest
	}
}

// letRun lets goroutines run that are queued behind the caller on its processor: while the caller
// looks for packets or blocks in a system call they cannot run until the runtime notices, 20 us to
// 10 ms later. letRun returns the time afterwards. rxMu is held.
//
// A goroutine that looks does so even if none is ready: the thread that the runtime then wakes is
// at hand for the next one. A goroutine that shares the CPU has none to spare for that. For a
// program in another language it would only hurt: the kernel runs the threads that packets wake
// there, and the extra thread of the runtime would take the look over each time.
func (s *Shard) letRun(now int64) int64 {
	c := &s.yield.compute
	if now < c.until || (s.forThreads() || !s.pace.looks(s.spin)) && !s.machine.Runnable() {
		return now
	}
	if !c.suspected {
		s.machine.Gosched()
		end := s.link.Now()
		c.ran(now, end, 0)
		return end
	}
	before := s.machine.ProcessRan()
	s.machine.Gosched()
	end := s.link.Now()
	after := s.machine.ProcessRan()
	c.ran(now, end, after-before)
	return end
}

func (s *Shard) forThreads() bool { return s.threads.Load() || s.foreign.Load() }

// GiveWay lets others run after a look that found nothing, in a program of which so many threads
// look: goroutines every PollYield looks, and other threads after each if there are fewer than two
// CPUs for each that looks, since their peers may be on this machine.
func (s *Shard) GiveWay(threads int) {
	if s.yield.looks.Add(1)%PollYield == 0 {
		s.Gosched()
	}
	if s.machine.CPUs() < 2*threads {
		s.yieldToPollers()
	}
}

// yieldToPollers yields the CPU for a thread that polls, where others do as well.
func (s *Shard) yieldToPollers() {
	if took, ok := s.yieldCPU(); ok && took <= hoggedNs {
		s.wantShortSlices(s.link.Now())
	}
}

// shareCPU yields the CPU for a receiver with one CPU, or where it is better to share. It reports
// false if unrelated work forbids the yield. rxMu is held.
func (s *Shard) shareCPU() bool {
	if s.machine.CPUs() > 1 && !s.pace.shares(s.spin) {
		return true
	}
	took, ok := s.yieldCPU()
	if ok {
		s.pace.demand.yielded(took)
	}
	return ok
}

// lookAgain reports whether a receiver is to look once more after a look, or to sleep: see pace and
// demand. rxMu is held.
func (s *Shard) lookAgain(now int64, busy bool) bool {
	look := !s.pace.looked(now, busy, s.received, s.spin)
	if s.pace.demand.alternates() && !s.forThreads() {
		s.wantShortSlices(now)
	} else {
		s.lapse(now)
	}
	switch {
	case busy:
		return look
	case !s.shareCPU():
		return false
	case !look && s.machine.CPUs() > 1 && s.pace.asks(s.spin):
		took, ok := s.yieldCPU()
		return ok && s.pace.demand.yielded(took)
	}
	return look
}

// yieldCPU lets another thread run on this CPU, if one wants to, and returns how long that took, in
// ns. It reports false if it did not because of unrelated work: nobody can send while this thread
// looks.
func (s *Shard) yieldCPU() (took int64, ok bool) {
	y := &s.yield
	start := s.link.Now()
	if start < y.backoffUntil.Load() {
		return 0, false
	}
	s.machine.Yield()
	end := s.link.Now()
	y.gaveWay(start, end)
	return end - start, true
}

// gaveWay notes how long it took to get the CPU back.
func (y *yielder) gaveWay(start, end int64) {
	took := end - start
	if took <= hoggedNs {
		return
	}
	rest := took
	if start-y.backoffUntil.Load() < took*computesRest {
		rest = min(max(rest, 2*y.backoff.Load()), staleNs)
	}
	y.backoff.Store(rest)
	y.backoffUntil.Store(end + rest)
}
