package cm

import "slices"

// Room for half-open connections: Limits.HalfOpen of them, and Limits.HalfOpenBytes for what
// the owner holds for them. A request is offered to the owner only while there is room, and waits
// in the queue of its listener until then. To give up a young connection for it would be
// wrong: in a crowd of honest peers most of the half-open connections have an RTU on its way, and
// their peers believe that they are connected.

// patienceNs is how long a half-open connection has before it is given up for a request
// that waits, if peers answer. After DefaultRetryNs the REP was repeated, so that a lost RTU harms nobody.
//
// In a flood of peers that never answer this would let in no more than 300 a second with 288 KiB each, and
// honest clients would not get through the backlog. So every connection that is given up makes the
// time shorter by a patienceStep-th, down to leastPatienceNs, which is some round trips; every one
// that is confirmed makes it longer by as much of the whole; and it is whole again when there
// are no half-open connections left. A crowd of honest peers confirms nearly all, so that it has all the time.
const (
	patienceNs      = DefaultRetryNs + 250e6
	leastPatienceNs = 5e6
	patienceStep    = 64
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

// room reports whether one more connection of the listener may become half-open.
func (a *Agent) room(l *Listener) bool {
	lim := &a.cfg.Limits
	n := a.halfOpen.len + l.inHand
	return n == 0 || n < lim.HalfOpen && int64(a.halfOpenUse)+int64(l.inHand+1)*int64(l.need) <= int64(lim.HalfOpenBytes)
}

// lacksRoom reports whether room is what the first request of the listener waits for.
func (l *Listener) lacksRoom() bool {
	return l.willing() && l.requests.head.request.REQ != nil && !l.a.room(l)
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
			n += l.requests.len
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
