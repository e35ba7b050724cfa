package shard

// rest decides when who receives sleeps at once, without a look. Where CPUs are free a look saves the wake-up of an idle CPU. Where the
// other end, or somebody else, waits for this CPU, a look keeps it from them. All that can be seen of that here is that waits take
// long. So when most of them take longer than a wake-up, there is no look for a while. If waits were shorter then, the next rest comes
// soon and is longer: but the kernel has time to move one of two threads that look to an idle CPU. If not, they are long for
// another reason.
type rest struct {
	usual  int64 // half of the waits are longer
	before int64 // the same, when the rest began; 0: it is over
	until  int64 // no look before
	length int64 // of the last one
	next   int64 // the next one does not begin before
}

// over reports whether there are looks.
func (v *rest) over(now int64) bool { return now >= v.until }

// waited notes how long a wait for packets took.
func (v *rest) waited(now, ns int64) {
	if ns > longWaitNs {
		return // nobody was about to send
	}
	if step := v.usual/16 + 1; ns > v.usual {
		v.usual += step
	} else if ns < v.usual {
		v.usual -= step
	}
	if !v.over(now) {
		return
	}
	if v.before > 0 {
		if v.next = now + minRestNs + v.length/8; v.usual > v.before/2 {
			v.next = now + maxRestNs
		}
		v.before = 0
	}
	if v.usual <= wakeUpNs || now < v.next {
		return
	}
	if now-v.until > 16*v.length {
		v.length = 0 // that was long ago
	}
	v.length = max(min(2*v.length, maxRestNs), minRestNs)
	v.before, v.until = v.usual, now+v.length
}
