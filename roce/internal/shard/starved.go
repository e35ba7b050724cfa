package shard

import (
	"sync"
	"sync/atomic"
)

// starved notices when the polling threads of a program get little CPU because others want it. Such
// a thread uses up its turn and then waits for all others: half a second on a machine with twenty
// threads for each CPU. If it loses the CPU while it holds the lock of the shard, nothing is
// received or answered for as long, and peers give up. That is likely, since a call that sends or
// wakes a thread makes others ready to run in its place.
//
// So the threads of a starving program neither receive, send nor wake anybody under the lock. They
// leave that to the goroutine of the shard, which sleeps most of the time and therefore runs soon
// after something comes.
type starved struct {
	until atomic.Int64 // on the clock of the link
	next  atomic.Int64 // when to measure again

	mu     sync.Mutex
	before usage
}

// usage is the CPU time that a thread has had.
type usage struct {
	thread int
	at     int64 // on the clock of the link
	ran    int64 // ns of CPU time
	slept  int64 // times that it gave the CPU away by itself
}

// starvedBetween reports whether a thread that wanted to run all the time got less than a twelfth
// of a CPU: its peers then wait for its turn for 30 ms and more, and by default repeat after 67 ms.
func starvedBetween(a, b usage) bool {
	return a.thread == b.thread && a.slept == b.slept && b.ran-a.ran < (b.at-a.at)/12
}

// looks measures a thread that polls, if that is due, and reports whether the program starves.
func (v *starved) looks(m machine, now int64) bool {
	if now >= v.next.Load() && v.mu.TryLock() {
		if u := usageOfThread(m, now); u.thread != 0 {
			v.note(u)
		}
		v.mu.Unlock()
	}
	return v.now(now)
}

// now reports whether the program starves, by the measurements so far.
func (v *starved) now(now int64) bool { return now < v.until.Load() }

// note takes a measurement. mu is held.
func (v *starved) note(u usage) {
	if starvedBetween(v.before, u) {
		v.until.Store(u.at + starvedNs)
	}
	v.before = u
	v.next.Store(u.at + usageNs)
}

// poller returns the thread that was measured last.
func (v *starved) poller() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.before.thread
}

// putOff notices that the thread that polls does not run because others have its CPU. It takes up
// polling where it was when it runs again, so another receiver would only be one more that wants a
// CPU.
type putOff usage

// looks reports whether a thread had a CPU for less than half of the time since the last look.
func (p *putOff) looks(s *Shard, thread int) bool {
	before, now := *p, putOff{thread: thread, at: s.link.Now()}
	now.ran = s.machine.ThreadRan(thread)
	*p = now
	return thread != 0 && thread == before.thread && now.ran-before.ran < (now.at-before.at)/2
}

// usageOfThread measures the calling thread; the zero value if the kernel does not tell.
func usageOfThread(m machine, now int64) usage {
	thread, ran, slept, _ := m.ThreadUsage()
	return usage{thread: thread, at: now, ran: ran, slept: slept}
}

// leavesSending leaves a message that is posted now to the goroutine if the program starves, and
// reports whether it did. The goroutine is woken when the lock is given back. The lock is held.
func (s *Shard) leavesSending(now int64) bool {
	if !s.foreign.Load() || !s.Background() || !s.starved.now(now) {
		return false
	}
	s.posts.leave()
	if s.blocked {
		s.blocked, s.wakeLater = false, true
	}
	return true
}
