package shard

// lease decides who has the seat of an event-driven shard, and so receives. The keeper, a goroutine
// of the shard, has the seat while what comes wakes several goroutines. If everything is for one
// goroutine, which asks, waits for the answer and asks again, or the other way round, the keeper
// lends it the seat. That goroutine then receives for itself whenever it waits, and a message wakes
// one thread, not two.
//
// A turn is a batch of packets that wakes the same goroutine as the last one: a goroutine that
// waits for the same signal, or the only one that waits, which may wait for several in turn. Some
// turns in succession lend the seat. The keeper takes it back when others are woken as well, or
// messages are posted behind others: messages that follow each other wait for each other only while
// the keeper is at work. The lease lapses if nobody sat in the seat for a period. After a mistaken
// lease the next one takes twice as many turns.
//
// How many packets a batch has does not matter. Where processes outnumber the CPUs messages queue,
// and there a second thread for each is dearest.
//
// Only a turn renews the lease, since something was received: a goroutine whose signal is always
// set waits and never receives.
type lease struct { // under the lock of the shard
	lent   bool
	over   bool    // the keeper is to take the seat back
	last   *Signal // what a turn has set last
	woken  *Signal // by the packets that are being handled
	other  bool    // so was another one
	alone  bool    // nobody else waited
	turns  int     // in succession
	need   int     // turns to lend, after mistakes
	behind int     // messages posted behind others since the last turn; of a thread: see posted
}

// woke notes that packets have woken the goroutine that waits for a signal, and whether nobody else
// waits. The signal is nil for one that waits by other means.
func (l *lease) woke(sig *Signal, alone bool) {
	l.alone = alone
	l.other = l.other || sig == nil || l.woken != nil && !l.woken.same(sig)
	l.woken = sig
}

// handled judges a batch of packets after woke was called for the goroutines that it has woken.
func (l *lease) handled(packets int) {
	sig, other := l.woken, l.other
	l.woken, l.other = nil, false
	switch {
	case packets == 0:
		return
	case other:
		l.against()
	case sig == nil:
		// An acknowledgement by itself.
	case !sig.same(l.last) && !l.alone:
		l.against()
		l.last = sig
	default:
		l.last = sig
		if l.turns++; l.lent && l.turns == maxBackOff*leaseTurns {
			l.turns, l.need = 0, l.need/2
		}
	}
	switch {
	case l.last.returns():
		l.behind = max(l.behind-1, 0)
	case l.last.ofThread(): // it may wait for many, and answer each that came
		l.behind = max(min(l.behind, 0)-packets, -2*rxBatch)
	default:
		l.behind = 0
	}
}

// against notes an event that speaks against a lease.
func (l *lease) against() { l.turns, l.over = 0, l.lent }

// posted notes a message that was posted behind others of its queue pair. A thread that waits by a
// descriptor is lent the seat only if there are few such in many turns: a program with many
// messages under way, as Ceph, often posts them in other threads than the one that waits, and the
// keeper sends them together.
func (l *lease) posted() {
	if l.behind++; l.last.returns() {
		l.behind += leaseBehind / 2
	}
	if l.behind > leaseBehind {
		l.against()
	}
}

// lends reports whether the keeper is to leave the seat to a goroutine that waits.
func (l *lease) lends() bool { return !l.lent && l.last != nil && l.turns >= max(l.need, leaseTurns) }

// begin lends the seat to the goroutine that waits for the last signal.
func (l *lease) begin() { l.lent, l.over, l.turns = true, false, 0 }

// end notes that the keeper takes the seat back. idle says that the thread in it sleeps and nothing
// has come: it has the seat again after the next turn.
func (l *lease) end(idle bool) {
	if l.over {
		l.mistake()
	}
	if idle && l.lent && !l.over {
		l.lent, l.turns = false, max(l.need, leaseTurns)-1
		return
	}
	l.lent, l.over, l.last, l.turns = false, false, nil, 0
}

// mistake has the next lease take twice as many turns.
func (l *lease) mistake() { l.need = min(2*max(l.need, leaseTurns), maxBackOff*leaseTurns) }
