package cm

import "slices"

// Room for half-open connections: Limits.HalfOpen of them, and Limits.HalfOpenBytes for what
// the owner holds for them. A request is offered to the owner only while there is room, and waits
// in the queue of its listener until then. To give up a young connection for it would be
// wrong: in a crowd of honest peers most of the half-open connections have an RTU on its way, and
// their peers believe that they are connected.

// patienceNs is how long a half-open connection has before it is given up for a request that waits,
// if peers answer. After DefaultRetryNs the REP was repeated, so that a lost RTU harms nobody.
//
// In a flood of peers that never answer this would let in no more than 300 a second with 288 KiB
// each. So every connection that is given up makes the time shorter by a patienceStep-th, down to
// leastPatienceNs; every one that is confirmed makes it longer by as much of the whole; and it is
// whole again when there are no half-open connections left. A crowd of honest peers confirms nearly
// all, so that it has all the time. It is not shorter because each connection costs the owner a
// queue pair and its memory: honest clients get through a flood by their rank (rank.go), and not
// because everything goes through.
const (
	patienceNs      = DefaultRetryNs + 250e6
	leastPatienceNs = 250e6
	patienceStep    = 64
	keptPart        = 16
)

// lessPatient is for a connection that was given up for a request that waits.
func (a *Agent) lessPatient() { a.patience = max(a.patience-a.patience/patienceStep, leastPatienceNs) }

// calm restores the patience when none is left that was not given up for another.
func (a *Agent) calm() {
	if a.halfOpen.len == 0 {
		a.patience = patienceNs
	}
}

// morePatient is for a connection that was confirmed.
func (a *Agent) morePatient() { a.patience = min(a.patience+patienceNs/patienceStep, patienceNs) }

// room reports whether the connection that the listener is to be asked for next may become
// half-open. A part of all is kept for addresses that are proven, once there are some: it takes a
// while until a flood is known to be one.
func (a *Agent) room(l *Listener) bool {
	most, bytes := a.cfg.Limits.HalfOpen, int64(a.cfg.Limits.HalfOpenBytes)
	if c := l.first(); c != nil && c.rank != proven && !a.proven.empty() {
		most, bytes = most-most/keptPart, bytes-bytes/keptPart
	}
	n := a.halfOpen.len + l.inHand
	return n == 0 || n < most && int64(a.halfOpenUse)+int64(l.inHand+1)*int64(l.need) <= bytes
}

// flooded reports whether far more connections come to nothing than are confirmed.
func (a *Agent) flooded() bool { return a.patience < patienceNs/2 }

// lacksRoom reports whether room is what the first request of the listener waits for.
func (l *Listener) lacksRoom() bool {
	return l.willing() && l.first().request.REQ != nil && !l.a.room(l)
}

// block notes a listener that lacks room.
func (l *Listener) block() {
	if !l.blocked && l.lacksRoom() {
		l.blocked = true
		l.a.blocked = append(l.a.blocked, l)
	}
}

// unblock offers the requests that waited for room.
func (a *Agent) unblock() {
	ls := a.blocked
	a.blocked = ls[:0]
	for _, l := range ls {
		l.blocked = false
		l.offer()
	}
	clear(ls[len(a.blocked):])
	if len(a.blocked) == 0 {
		a.blocked = nil
	}
}

// forgetBlocked drops a listener that closes.
func (a *Agent) forgetBlocked(l *Listener) {
	if l.blocked {
		l.blocked = false
		a.blocked = slices.DeleteFunc(a.blocked, func(x *Listener) bool { return x == l })
	}
}

// wanting returns how many requests wait for room.
func (a *Agent) wanting() (n int) {
	for _, l := range a.blocked {
		if l.lacksRoom() {
			n += l.untakenRequests()
		}
	}
	return n
}

// roomAt returns when a half-open connection may be given up for a request that waits.
func (a *Agent) roomAt() (int64, bool) {
	if a.halfOpen.head == nil || a.wanting() == 0 {
		return 0, false
	}
	return a.halfOpen.head.repNs + a.patience, true
}

// makeRoom gives up half-open connections whose peers have ignored the REP for long, the oldest
// first, for requests that wait.
func (a *Agent) makeRoom(now int64) {
	patience := a.patience
	for n := a.wanting(); n > 0; n-- {
		c := a.halfOpen.head
		if c == nil || now < c.repNs+patience {
			return
		}
		a.lessPatient()
		a.stats.Evicted++
		c.giveUp(now)
	}
}
