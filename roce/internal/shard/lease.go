package shard

import "sync/atomic"

// lease decides who has the seat of an event-driven shard: who receives. The keeper, a goroutine of the
// shard, has it while several goroutines are woken by what comes. If all that comes is for one, which
// asks, waits for the answer and asks again, or the other way round, the keeper lends the seat to that
// one. It then receives for itself whenever it waits, and a message wakes one thread, not two.
//
// A turn is a small batch of packets that wakes the same goroutine as the last one. It takes need turns
// to lend. When others are woken, too, or messages are posted behind others, the keeper takes the
// seat back: a stream is received best while its reader uses what came before, and messages that follow
// each other wait for each other only while the keeper is at work. If nobody sat in the seat for a
// period the lease lapses. After a lease that was a mistake the next one takes twice as many turns.
//
// A turn renews the lease, since something was received, and nothing else does: a goroutine whose signal is always
// set waits and never receives.
type lease struct {
	heir atomic.Pointer[Signal] // of the goroutine that has the seat while it waits; nil: the keeper has it

	// The following is under the lock of the shard.
	last   *Signal // what a turn has set last
	woken  *Signal // by the packets that are being handled
	other  bool    // so was another one
	turns  int     // that speak for last
	need   int     // turns to lend; see also enough
	kept   int     // turns since the seat was lent
	behind int     // messages posted behind others since the last turn
}

// is reports whether the goroutine that waits for a signal has the seat.
func (l *lease) is(sig *Signal) bool { return sig != nil && l.heir.Load() == sig }

// lent reports whether somebody has.
func (l *lease) lent() bool { return l.heir.Load() != nil }

// woke notes that packets have woken the goroutine that waits for a signal. It is nil for one that
// waits by other means.
func (l *lease) woke(sig *Signal) {
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
		l.against(setback)
	case sig == nil:
		// An acknowledgement by itself.
	case sig != l.last:
		if l.against(setback); l.turns == 0 {
			l.last = sig
		}
	default:
		l.turns = min(l.turns+1, l.enough())
		if l.lent() {
			if l.kept++; l.kept == keptTurns {
				l.kept, l.need = 0, l.need/2
			}
		}
	}
	l.behind = 0
}

func (l *lease) against(n int) { l.turns = max(l.turns-n, 0) }

// enough is how many turns it takes to lend, and how many can be taken back after that.
func (l *lease) enough() int {
	if l.lent() {
		return leaseTurns
	}
	return max(l.need, leaseTurns)
}

// posted notes a message that was posted behind others of its queue pair.
func (l *lease) posted() {
	if l.behind++; l.behind > turnPackets {
		l.turns = 0
	}
}

// streams notes messages that were posted together.
func (l *lease) streams() { l.turns = 0 }

// lends reports whether the keeper is to leave the seat to a goroutine that waits.
func (l *lease) lends() bool { return !l.lent() && l.last != nil && l.turns >= l.enough() }

// begin lends the seat.
func (l *lease) begin() {
	l.kept, l.turns = 0, leaseTurns
	l.heir.Store(l.last)
}

// over reports whether the keeper is to take the seat back.
func (l *lease) over() bool { return l.lent() && l.turns == 0 }

// end is when the keeper does. missed says that the lease was a mistake: packets waited meanwhile, or
// it was over.
func (l *lease) end(missed bool) {
	if missed {
		l.need = min(2*max(l.need, leaseTurns), maxLeaseTurns)
	}
	l.heir.Store(nil)
	l.last, l.turns = nil, 0
}
