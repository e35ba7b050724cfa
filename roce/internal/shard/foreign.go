package shard

import (
	"sync/atomic"
	"time"
)

// This file is about programs in another language that poll: they read completions from memory,
// where the shard does not see them look, and call Progress now and then. May the goroutine of the
// shard leave receiving to such a program (attention)? Does the program still take its packets
// (standby)? Does its thread have a CPU (putOff)?

// ServeForeign notes that a program in another language uses the shard and looks at memory without
// a call.
func (s *Shard) ServeForeign() {
	if s.mode != Driven {
		s.foreign.Store(true)
		if s.Lent() {
			s.takeOver()
		}
	}
}

// Progress is Poll for such a program, when it has found nothing. So many of its threads poll.
func (s *Shard) Progress(threads int) {
	k, now := &s.keeper, s.link.Now()
	s.poller.polls(s.machine, now)
	if s.Polled() {
		s.Poll(Always)
		if s.machine.CPUs() < 2*threads {
			s.GiveWay(threads)
		}
		return
	}
	s.SendPosted()
	if s.mode == Driven {
		return
	}
	if (k.attention.called(now) || s.mode == Polling && k.attention.proof.Load() == 0) &&
		k.wanted.CompareAndSwap(false, true) {
		s.link.Wake()
	}
	if s.machine.CPUs() < 2*threads {
		s.yieldToPollers() // to the goroutine, too
	}
}

// attention decides whether the goroutine may leave receiving to the program. Between two calls it
// may also watch memory that peers write, or do something else. So it must first prove that it
// polls, by the total time between closely spaced calls. Pauses do not count, since the scheduler
// makes some, but a long one starts the proof anew. The time required doubles when packets are
// found that nobody took, and halves when the program has polled on.
type attention struct {
	last   atomic.Int64 // the last call
	polled atomic.Int64 // the time between calls that followed each other closely, ns
	proof  atomic.Int64 // how long that has to be
}

// called notes a call while the goroutine is at work, and reports whether the goroutine is to give
// way.
func (a *attention) called(now int64) bool {
	switch gap := now - a.last.Swap(now); {
	case gap > int64(patience):
		a.polled.Store(0)
	case gap <= attentionGapNs:
		a.polled.Add(gap)
	}
	return a.polled.Load() >= max(a.proof.Load(), standbyNs)
}

// begin forgets the calls so far, because the goroutine is at work again.
func (a *attention) begin() { a.polled.Store(0) }

// missed notes that packets waited and nobody took them.
func (a *attention) missed() {
	a.proof.Store(min(2*max(a.proof.Load(), standbyNs), missedProofNs))
}

// kept notes that the program has polled for long. A program that never missed a packet has nothing
// to make good.
func (a *attention) kept() {
	if now := a.proof.Load(); now != 0 {
		a.proof.Store(max(now/2, standbyNs))
	}
}

// standby looks after a shard that a program polls by [Shard.Progress]. Its goroutine looks every
// 50 us at first, then ever more rarely while the program goes on polling. It takes the packets
// that the program leaves, for example while the program watches memory that only the device can
// write. When it has nothing more to do, the timer of the keeper is enough.
type standby struct {
	on    atomic.Bool   // the goroutine exists
	given atomic.Uint32 // how often the goroutine of the shard gave way
}

// standBy starts the goroutine, if there is none. The caller may hold the lock of the shard.
func (s *Shard) standBy() {
	if !s.standby.on.CompareAndSwap(false, true) {
		return
	}
	go func() {
		s.machine.Resumed()
		k := &s.keeper
		k.mu.Lock()
		if k.over {
			k.mu.Unlock()
			return
		}
		k.running.Add(1)
		k.mu.Unlock()
		defer k.running.Done()
		given := s.standby.given.Load()
		s.lookAfter()
		s.standby.on.Store(false)
		if s.standby.given.Load() != given {
			s.standBy() // it was asked for meanwhile
		}
	}()
}

// activity counts what a program has done so far. A program that posts is at work as well: it will
// look for completions when it has posted what it has.
type activity struct{ polls, posts uint32 }

// changed reports whether the program has done something since the last call.
func (a *activity) changed(polls, posts uint32) bool {
	before := *a
	*a = activity{polls, posts}
	return before != *a
}

// notePost counts a call that posts.
func (s *Shard) notePost() {
	if s.foreign.Load() {
		s.keeper.postCalls.Add(1)
	}
}

// lookAfter is standby's goroutine.
func (s *Shard) lookAfter() {
	k := &s.keeper
	var seen activity
	var put putOff
	seen.changed(k.polls.Load(), k.postCalls.Load())
	put.lacked(s, int(s.poller.thread.Load()))
	pause, idle := time.Duration(standbyNs), time.Duration(0)
	for {
		s.machine.Nap(pause)
		if s.Closed() || s.Background() || k.off.Load() {
			return
		}
		thread := int(s.poller.thread.Load())
		off := put.lacked(s, thread) && s.machine.ThreadReady(thread)
		if seen.changed(k.polls.Load(), k.postCalls.Load()) {
			idle = 0
		} else if off {
			s.receiveForNobody()
		} else if idle += pause; s.receiveForNobody() {
			k.attention.missed()
			s.linger.missed()
			s.takeOver()
			return
		} else if idle >= patience {
			s.takeOver() // it sleeps until something comes
			return
		}
		if pause *= 2; pause > patience {
			if idle == 0 {
				k.attention.kept()
			}
			return // the timer of the keeper goes on
		}
	}
}

// receiveForNobody receives for a program that does not, and reports whether there was a packet or
// an error.
func (s *Shard) receiveForNobody() bool {
	if !s.rxMu.TryLock() {
		return false // the program receives after all
	}
	defer s.rxMu.Unlock()
	s.received = 0
	_, err := s.progress(Never)
	return err != nil || s.received > 0 // the goroutine that takes over meets the error again
}

// poller is the thread of a program in another language that polls, as of up to staleNs ago.
type poller struct {
	thread atomic.Int64
	next   atomic.Int64 // when to ask again
}

// polls notes that the calling thread polls.
func (p *poller) polls(m machine, now int64) {
	if now >= p.next.Load() {
		p.next.Store(now + staleNs)
		p.thread.Store(int64(m.Thread()))
	}
}

// putOff notices that the thread that polls does not run because others have its CPU. It takes up
// polling where it was when it runs again, so another receiver would only be one more that wants a
// CPU.
type putOff struct {
	thread int
	at     int64 // on the clock of the link
	ran    int64 // ns of CPU time
}

// lacked reports whether a thread had a CPU for less than half of the time since the last call.
func (p *putOff) lacked(s *Shard, thread int) bool {
	before, now := *p, putOff{thread: thread, at: s.link.Now()}
	now.ran = s.machine.ThreadRan(thread)
	*p = now
	return thread != 0 && thread == before.thread && now.ran-before.ran < (now.at-before.at)/2
}
