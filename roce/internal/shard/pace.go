package shard

import "time"

// pace decides how long a receiver looks for packets before it sleeps.
//
// A look costs CPU time. A sleep costs more where an answer is near: a wake-up on an idle CPU takes
// tens of microseconds, and the peer, which waits for as long, sleeps as well and must be woken in
// turn. So a pair that sleeps goes on to do so, and one that looks finds each packet after ten
// microseconds. The receiver looks more often when packets come soon after a sleep has begun, up to
// maxLooks times, and less often when they do not.
//
// Where looks still end in a sleep now and then, or others get the CPU meanwhile, it may be better
// to share the CPU: to let others run before each of a few looks, and then to sleep. It is better
// where others want the CPU most of the time (demand). Else only tries can tell (tryout).
//
// Where the process itself may have no more CPU time, a receiver that waits for one conversation
// shares too: that takes two thirds of the CPU time of looking, and the quota ends later (pauses).
//
// pace counts looks, not time. A look takes 1 us on most machines, 4 us where system calls are
// slow, and 30 to 100 us where instructions are emulated, and everything else slows down with it.
type pace struct {
	since  int64 // since when nothing has come
	awake  int64 // since when it has looked without a result
	woken  int64 // when it was woken since then; 0: it was not
	empty  int64 // looks since awake
	most   int64 // empty looks before a sleep
	soon   int64 // how long maxLooks looks take, by those before the last sleep
	last   int64 // the last look
	lost   bool  // a look took long, as somebody else ran
	vain   share // how many looks end in a sleep, or lost the CPU
	asked  bool  // it was found out, in this look, whether others want the CPU
	lent   bool  // the receiver is the goroutine or thread that waits, and so this is one conversation
	pauses pauses
	demand demand
	tryout tryout
}

// pauses notices that the process stands still again and again, as a quota of CPU time has it: for
// the rest of each period, mostly of 100 ms. A program beside it takes the CPU for a time slice of
// a few milliseconds.
type pauses struct {
	last  int64 // when the last one ended
	until int64 // more are expected
}

// took notes the time from one look to the next, without a sleep.
func (p *pauses) took(now, took int64) {
	if took <= tryoutNs {
		return
	}
	if p.last != 0 && now-p.last < maxTryoutWait*tryoutNs {
		p.until = now + maxBackOff*sliceNs
	}
	p.last = now
}

// begin notes that a receiver begins, or that something came.
func (v *pace) begin(now int64) {
	v.came()
	v.since, v.awake, v.empty, v.last, v.lost, v.asked = now, now, 0, now, false, false
}

// woke notes the end of a sleep.
func (v *pace) woke(now int64) { v.awake, v.woken, v.empty, v.last = now, now, 0, now }

// came adjusts the number of looks after a sleep, when something has come or a receiver begins
// again.
func (v *pace) came() {
	switch {
	case v.woken == 0:
		return
	case v.woken-v.since <= v.soon:
		v.most = min(2*v.most, maxLooks)
	default:
		v.most /= 2
	}
	v.woken = 0
}

// looks reports whether a goroutine that begins to receive, when nothing is known to be there, is
// to look before it sleeps.
func (v *pace) looks(spin spinTime) bool {
	if spin.exact {
		return spin.ns > 0
	}
	return v.tryout.looks() && !v.mustShare()
}

// mustShare reports whether to share without a try.
func (v *pace) mustShare() bool { return v.demand.exceeds || v.lent && v.last < v.pauses.until }

// shares reports whether to let others run before each look.
func (v *pace) shares(spin spinTime) bool { return !spin.exact && !v.looks(spin) }

// asks reports whether a receiver that is to sleep, and keeps its CPU, is to find out first if
// others want it: once in a look.
func (v *pace) asks(spin spinTime) bool {
	asks := !spin.exact && !v.asked && v.looks(spin)
	v.asked = v.asked || asks
	return asks
}

// looked notes a look at the link, how many packets it found, and reports whether to sleep.
func (v *pace) looked(now int64, busy bool, packets int, spin spinTime) bool {
	looks := v.looks(spin)
	v.lost = v.lost || now-v.last > hoggedNs
	v.pauses.took(now, now-v.last)
	v.last = now
	if busy {
		if looks {
			v.vain.note(v.lost)
			v.demand.found()
		}
		if packets > 0 && !v.mustShare() {
			v.tryout.came(now, packets, v.vain >= 2./shareOf)
		}
		v.begin(now)
		return false
	}
	v.empty++
	if spin.exact {
		return !looks || now-v.awake >= spin.ns
	}
	if !looks {
		return v.empty >= shareLooks
	}
	if v.most = max(v.most, minLooks); v.empty < v.most {
		return false
	}
	v.soon = (now - v.awake) * maxLooks / v.empty
	v.vain.note(true)
	return true
}

// share is an average of about the last shareOf cases: the part that were of a kind.
type share float32

func (s *share) note(yes bool) {
	*s -= *s / shareOf
	if yes {
		*s += 1. / shareOf
	}
}

// spinTime is how long to look. If exact, the program has set it, and each look takes that long.
type spinTime struct {
	ns    int64
	exact bool
}

func spinTimeOf(d time.Duration) spinTime { return spinTime{ns: int64(d), exact: d != 0} }
