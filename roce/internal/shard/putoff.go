package shard

import "sync/atomic"

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

// looks reports whether a thread had a CPU for less than half of the time since the last look.
func (p *putOff) looks(s *Shard, thread int) bool {
	before, now := *p, putOff{thread: thread, at: s.link.Now()}
	now.ran = s.machine.ThreadRan(thread)
	*p = now
	return thread != 0 && thread == before.thread && now.ran-before.ran < (now.at-before.at)/2
}
