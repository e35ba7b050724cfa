package shard

// pace decides how long who receives looks again and again before it sleeps.
//
// To look costs a CPU for as long. To sleep costs more than that where an answer is near: on an
// idle CPU a wake-up takes tens of microseconds, and the peer, which waits for as long, sleeps
// meanwhile, too, and has to be woken in turn. So a pair that sleeps goes on to do so, and one that
// looks finds each packet after ten microseconds. The time to look grows when packets come soon
// after it, up to maxSpinNs, and shrinks when they do not. Whether to look at all is tried out: see
// tryout.
//
// Where others want the CPU, a thread that looks gets less of it than one that sleeps and is woken.
// A turn takes about 1 us; one that took much longer shows that somebody else ran. That happens now
// and then on any machine, and is a reason not to look only when it takes a good part of the time:
// lost adds up what was taken, less a quarter of the time since.
//
// On a machine whose instructions are emulated a turn takes 30 to 100 us, and so does everything
// else longer: the answer, and the wake-up. Therefore these times are multiplied there by how slow
// the machine is, which its own turns tell.
type pace struct {
	last      int64 // the last turn
	awake     int64 // since when it looks in vain
	idleSince int64 // since when nothing has come
	woken     int64 // when it was woken since then; 0: it was not
	look      int64 // how long it looks
	lost      int64
	rest      int64 // how long it does not look, the last time
	again     int64 // no looking before
	tryout    tryout
	glance    int64 // the usual time of a turn that finds nothing: about half of them take longer
}

// begin notes that somebody begins to receive.
func (v *pace) begin(now int64) {
	v.came()
	v.last, v.awake, v.idleSince = now, now, now
}

// woke notes the end of a sleep.
func (v *pace) woke(now int64) { v.last, v.awake, v.woken = now, now, now }

// looks reports whether a goroutine that begins to receive, when nothing is known to be there, is
// to look before it sleeps.
func (v *pace) looks(now, spinNs int64) bool {
	return spinNs > 0 && now >= v.again && v.tryout.looks()
}

// came is for begin and turn: there was something, or somebody comes back after there was.
func (v *pace) came() {
	switch {
	case v.woken == 0:
		return
	case v.woken-v.idleSince <= v.slowly(maxSpinNs):
		v.look = min(2*v.look, v.slowly(maxSpinNs))
	default:
		v.look /= 2
	}
	v.woken = 0
}

// turn notes a look at the link that has found so many packets, and reports whether to sleep.
// spinNs is how long to look at least; with grows false, exactly, and not while somebody else runs
// at all.
func (v *pace) turn(now int64, busy bool, packets int, spinNs int64, grows bool) bool {
	took := now - v.last
	v.last = now
	v.lost = max(v.lost-took/4, 0)
	if v.lost == 0 {
		v.rest = 0
	}
	if busy {
		v.handled(took)
		v.came()
		if packets > 0 && grows {
			v.tryout.came(now, packets)
		}
		v.awake, v.idleSince = now, now
		return false
	}
	if grows && now >= v.again {
		v.glanced(took)
	}
	if took > v.slowly(preemptedNs) {
		v.preempted(took, now, grows)
	}
	v.look = max(v.look, spinNs)
	if grows {
		spinNs = v.look
	}
	return now-v.awake >= spinNs || now < v.again || grows && !v.tryout.looks()
}

// preempted notes that a turn took long. It decides whether to look for the next while.
func (v *pace) preempted(took, now int64, grows bool) {
	if !grows {
		v.again = now + spinPauseNs
		return
	}
	if v.lost += took; v.lost > v.slowly(maxLostNs) {
		v.rest = max(min(2*v.rest, maxSpinPauseNs), spinPauseNs)
		v.again, v.lost = now+v.rest, v.slowly(maxLostNs)/2
	}
}

// glanced learns from a turn that found nothing. It goes up for one that took longer than the usual
// and down for one that did not, in equal steps. So the few that took very long, as somebody else
// ran, count no more than others. While there is no looking there is one turn after each sleep,
// which finds caches cold: these do not come here.
func (v *pace) glanced(took int64) {
	v.glance = max(v.glance, usualTurnNs)
	if took > v.glance {
		v.glance = min(v.glance*5/4, maxSlowness*usualTurnNs)
		return
	}
	v.handled(took)
}

// handled learns from a turn that found something. One that found nothing would have taken less.
func (v *pace) handled(took int64) {
	if took < v.glance {
		v.glance = max(v.glance*4/5, usualTurnNs)
	}
}

// slowly returns how long something takes on this machine that takes ns on most.
func (v *pace) slowly(ns int64) int64 {
	if v.glance <= 2*usualTurnNs {
		return ns // caches may be cold
	}
	return ns * v.glance / usualTurnNs
}
