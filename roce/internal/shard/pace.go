package shard

// spinner decides how long who leads looks again and again before it blocks, as loop does. It is used with rxMu held.
type spinner struct {
	last      int64 // the last turn
	idleSince int64
	again     int64 // no spinning before
}

// begin notes that the goroutine begins, or begins again after it has blocked.
func (v *spinner) begin(now int64) { v.last, v.idleSince = now, now }

// pauses reports whether there is no spinning.
func (v *spinner) pauses(now int64) bool { return now < v.again }

// turn notes a look at the link, and reports whether the goroutine is to block.
func (v *spinner) turn(now int64, busy bool, spinNs int64) bool {
	if !busy && now-v.last > preemptedNs {
		// There is other work for this processor, and a thread that spins gets
		// less of it than one that sleeps and is woken.
		v.again = now + spinPauseNs
	}
	v.last = now
	if busy {
		v.idleSince = now
		return false
	}
	return now-v.idleSince >= spinNs || v.pauses(now)
}
