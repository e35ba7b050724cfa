package shard

// lease decides who has the seat of an event-driven shard: who receives. The keeper, a goroutine of
// the shard, has it while several goroutines are woken by what comes. If all that comes is for one,
// which asks, waits for the answer and asks again, or the other way round, the keeper lends the
// seat to that one. It then receives for itself whenever it waits, and a message wakes one thread,
// not two.
//
// A turn is a small batch of packets that wakes the same goroutine as the last one: one that waits
// for the same signal, or the only one that waits, which may wait for several in turn. It takes
// some turns to lend. When others are woken, too, or messages are posted behind others, the keeper
// takes the seat back: a stream is received best while its reader uses what came before, and
// messages that follow each other wait for each other only while the keeper is at work. If nobody
// sat in the seat for a period the lease lapses. After a lease that was a mistake the next one
// takes twice as many turns.
//
// A turn renews the lease, since something was received, and nothing else does: a goroutine whose
// signal is always set waits and never receives.
type lease struct { // under the lock of the shard
	lent   bool
	over   bool    // the keeper is to take the seat back
	last   *Signal // what a turn has set last
	woken  *Signal // by the packets that are being handled
	other  bool    // so was another one
	alone  bool    // nobody else waited
	turns  int     // in succession
	need   int     // turns to lend, after mistakes
	behind int     // messages posted behind others since the last turn
}

// woke notes that packets have woken the goroutine that waits for a signal, and whether nobody else
// waits. The signal is nil for one that waits by other means.
func (l *lease) woke(sig *Signal, alone bool) {
	l.alone = alone
	l.other = l.other || sig == nil || l.woken != nil && l.woken != sig
	l.woken = sig
}

// handled is called after so many packets, which have woken those that woke was called for.
func (l *lease) handled(packets int) {
	sig, other := l.woken, l.other
	l.woken, l.other = nil, false
	switch {
	case packets == 0:
		return
	case other || packets > turnPackets:
		l.against()
	case sig == nil:
		// An acknowledgement by itself.
	case sig != l.last && !l.alone:
		l.against()
		l.last = sig
	default:
		l.last = sig
		if l.turns++; l.lent && l.turns == maxLeaseTurns {
			l.turns, l.need = 0, l.need/2
		}
	}
	l.behind = 0
}

// against notes what speaks against a lease.
func (l *lease) against() { l.turns, l.over = 0, l.lent }

// posted notes a message that was posted behind others of its queue pair.
func (l *lease) posted() {
	if l.behind++; l.behind > turnPackets {
		l.against()
	}
}

// lends reports whether the keeper is to leave the seat to a goroutine that waits.
func (l *lease) lends() bool { return !l.lent && l.last != nil && l.turns >= max(l.need, leaseTurns) }

// begin lends the seat to the goroutine that waits for the signal that it returns.
func (l *lease) begin() *Signal {
	l.lent, l.over, l.turns = true, false, 0
	return l.last
}

// end is when the keeper takes it back.
func (l *lease) end() {
	if l.over {
		l.mistake()
	}
	l.lent, l.over, l.last, l.turns = false, false, nil, 0
}

// mistake has the next lease take twice as many turns.
func (l *lease) mistake() { l.need = min(2*max(l.need, leaseTurns), maxLeaseTurns) }
