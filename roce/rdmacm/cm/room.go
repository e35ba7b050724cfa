package cm

import "slices"

// Room for half-open connections: Limits.HalfOpen of them, and Limits.HalfOpenBytes for the owner's
// memory. A request is offered to the owner only while there is room, and waits in the queue of its
// listener until then. It would be wrong to give up a young connection for it: in a crowd of honest
// peers most half-open connections have an RTU on its way, and their peers believe that they are
// connected.

// patienceNs is how long a half-open connection lasts before it is given up for a waiting request,
// if peers answer. The REP is repeated after DefaultRetryNs, so a lost RTU does no harm.
//
// In a flood of peers that never answer this would let in no more than 300 a second with 288 KiB
// each. So every connection that is given up shortens the time by one patienceStep-th, down to
// leastPatienceNs; every one that is confirmed lengthens it by the same fraction of the whole; and
// it is whole again when no half-open connections are left. A crowd of honest peers confirms nearly
// all, so it keeps the whole time. It is not shorter because each connection costs the owner a
// queue pair and its memory: honest clients get through a flood by their rank (rank.go), and not
// because everything goes through.
const (
	patienceNs      = DefaultRetryNs + 250e6
	leastPatienceNs = 250e6
	patienceStep    = 64
	keptPart        = 16
)

// lessPatient shortens the patience when a connection was given up for a waiting request.
func (a *Agent) lessPatient() { a.patience = max(a.patience-a.patience/patienceStep, leastPatienceNs) }

// calm restores the patience when no half-open connections are left.
func (a *Agent) calm() {
	if a.halfOpen.len == 0 {
		a.patience = patienceNs
	}
}

// morePatient lengthens the patience when a connection was confirmed.
func (a *Agent) morePatient() { a.patience = min(a.patience+patienceNs/patienceStep, patienceNs) }

// room reports whether the next request of the listener may become half-open. Some room is kept for
// proven addresses, once there are any: it takes a while to recognise a flood.
func (a *Agent) room(l *Listener) bool {
	most, bytes := a.cfg.Limits.HalfOpen, int64(a.cfg.Limits.HalfOpenBytes)
	if c := l.first(); c != nil && c.rank != proven && !a.proven.empty() {
		most, bytes = most-most/keptPart, bytes-bytes/keptPart
	}
	n := a.halfOpen.len + l.inHand
	return n == 0 || n < most && int64(a.halfOpenUse)+int64(l.inHand+1)*int64(l.need) <= bytes
}

// flooded reports whether far more connections fail than are confirmed.
func (a *Agent) flooded() bool { return a.patience < patienceNs/2 }

// lacksRoom reports whether the first request of the listener waits only for room.
func (l *Listener) lacksRoom() bool {
	return l.willing() && l.first().request.REQ != nil && !l.a.room(l)
}

// block enters a listener that lacks room.
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

// roomAt returns when a half-open connection may be given up for a waiting request.
func (a *Agent) roomAt() (int64, bool) {
	if a.halfOpen.head == nil || a.wanting() == 0 {
		return 0, false
	}
	return a.halfOpen.head.repNs + a.patience, true
}

// makeRoom gives up half-open connections whose peers have ignored the REP for too long, the oldest
// first, one for each waiting request.
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
