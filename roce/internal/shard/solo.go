package shard

import "sync/atomic"

// solo finds out whether all that comes is for one goroutine, which asks, waits for the answer, and asks again, or
// answers and waits for the next question. Such a goroutine receives for itself (lead.go), so that what comes is not handed on from
// one thread to another: that is two sleeps for each message instead of one.
//
// Everybody else is served better by a goroutine that always receives: streams, since what comes next is received
// while what has come is used; messages that are posted one after the other, since they wait for each other while it is at
// work; and several goroutines that wait, of which each would receive for the others, and be away while it is busy.
//
// A turn is a small batch of packets that wakes the same goroutine as the last one. It takes a number of turns to
// begin, and whatever else happens takes some of them back. When too many are gone, or when packets have waited since
// the goroutine was away, it is over, and takes twice as many turns the next time.
type solo struct {
	sig atomic.Pointer[Signal] // what the goroutine waits for that may receive; nil: there is none

	// The following is under the lock of the shard.
	last  *Signal // what was set last
	woken *Signal // by the packets that are being handled
	other bool    // so was another one
	turns int     // that speak for last, less those against
	proof int     // how many it takes
	led   int     // turns since it began
	posts int     // posted behind others since the last turn
}

// is reports whether who waits for a signal is to receive.
func (v *solo) is(by *Signal) bool { return by != nil && v.sig.Load() == by }

// woke notes that packets have set a signal. It may be nil: somebody was told by other means.
func (v *solo) woke(by *Signal) {
	v.other = v.other || by == nil || v.woken != nil && v.woken != by
	v.woken = by
}

// handled notes how many packets have set the signals since the last call.
func (v *solo) handled(packets int) {
	by := v.woken
	switch {
	case packets == 0:
	case v.other || packets > soloPackets:
		v.against(soloSetback)
	case by == nil:
		v.against(2)
	case by != v.last:
		if v.against(soloSetback); v.turns == 0 {
			v.last = by
		}
	default:
		v.turns = min(v.turns+1, v.enough())
		if v.led++; v.led >= soloKept {
			v.led, v.proof = 0, v.proof/2
		}
	}
	v.woken, v.other = nil, false
	if packets > 0 {
		v.posts = 0
	}
}

// enough is how many turns it takes to begin, and how many can be taken back after that.
func (v *solo) enough() int {
	if v.sig.Load() != nil {
		return soloTurns
	}
	return max(v.proof, soloTurns)
}

func (v *solo) against(n int) { v.turns = max(v.turns-n, 0) }

// posted notes a message that was posted while others of its queue pair were on their way.
func (v *solo) posted() {
	if v.posts++; v.posts > soloPackets {
		v.turns = 0
	}
}

// streams notes that messages were posted together.
func (v *solo) streams() { v.turns = 0 }

// proven reports whether a goroutine is to receive for itself from now on.
func (v *solo) proven() bool {
	return v.last != nil && v.sig.Load() == nil && v.turns >= v.enough()
}

// begin has who waits for a signal do so.
func (v *solo) begin(sig *Signal) {
	v.led, v.turns = 0, soloTurns
	v.sig.Store(sig)
}

// over reports whether somebody receives for itself who should not any more.
func (v *solo) over() bool { return v.turns < soloTurns/2 && v.sig.Load() != nil }

// end is the end of it: the goroutine of the shard receives. Unless there was nothing to receive it takes twice as many turns the next time.
func (v *solo) end(idle bool) {
	if v.sig.Load() != nil && !idle {
		v.proof = min(2*max(v.proof, soloTurns), maxSoloTurns)
	}
	v.sig.Store(nil)
	v.turns = 0
}
