package transport

// timerID identifies a timer of a QP.
type timerID uint8

const (
	timerAck     timerID = iota // requester: no answer for a few round trips
	timerProbe                  // requester: nothing answered for a few round trips
	timerRNR                    // responder: repeat a gap's sequence NAK
	timerNAK                    // responder: repeat the sequence NAK of a gap
	timerLinger                 // responder: end of the linger after a fatal NAK
	timerPace                   // congestion control: the rate permits more data
	timerFlight                 // requester: unanswered packets have left the network
	timerMissing                // requester: missing packets count as lost
	numTimers
)

// qpTimers holds the due times of a QP's timers, and its place in the engine's queue.
type qpTimers struct {
	set uint8
	pos int32            // index in the queue plus 1; 0 if not there
	at  [numTimers]int64 // valid if the timer's bit in set is 1
}

// next returns when the next timer is due.
func (t *qpTimers) next() (at int64, ok bool) {
	for id, bits := 0, t.set; bits != 0; id, bits = id+1, bits>>1 {
		if bits&1 != 0 && (!ok || t.at[id] < at) {
			at, ok = t.at[id], true
		}
	}
	return at, ok
}

// timerQueue orders the QPs by their next timer. It is a heap with lazy updates: an entry's time is
// never later than the QP's next timer, but may be earlier. Every packet delays or stops the ACK
// timer, which is just a store. An entry moves at most once per timeout, when its old time comes to
// the top. So a packet costs O(1), and timers expire to the nanosecond, as tests in virtual time
// need.
type timerQueue struct {
	heap []timerEntry // timerFan-ary, least first
}

type timerEntry struct {
	at int64
	qp *QP
}

// timerFan is the number of children of a heap node: 4 entries fill a cache line.
const timerFan = 4

// setTimer makes timer id of the QP due at at. A timer's own handler must set it to a time in the
// future.
func (qp *QP) setTimer(id timerID, at int64) {
	t := &qp.timers
	t.at[id] = at
	t.set |= 1 << id
	qp.timersSet(at)
}

// timersSet notes that timers of the QP were set, the earliest of them for at.
func (qp *QP) timersSet(at int64) {
	q := &qp.e.timers
	if i := int(qp.timers.pos) - 1; i < 0 {
		q.heap = append(q.heap, timerEntry{})
		q.up(len(q.heap)-1, timerEntry{at, qp})
	} else if at < q.heap[i].at {
		q.up(i, timerEntry{at, qp})
	}
}

// stopTimer stops timer id of the QP.
func (qp *QP) stopTimer(id timerID) { qp.timers.set &^= 1 << id }

// timerSet reports whether timer id of the QP is running.
func (qp *QP) timerSet(id timerID) bool { return qp.timers.set&(1<<id) != 0 }

// up places x at index i or closer to the root.
func (q *timerQueue) up(i int, x timerEntry) {
	for i > 0 {
		parent := (i - 1) / timerFan
		if q.heap[parent].at <= x.at {
			break
		}
		q.put(i, q.heap[parent])
		i = parent
	}
	q.put(i, x)
}

// down places x at index i or further from the root.
func (q *timerQueue) down(i int, x timerEntry) {
	for {
		first := i*timerFan + 1
		if first >= len(q.heap) {
			break
		}
		least := first
		for c := first + 1; c < min(first+timerFan, len(q.heap)); c++ {
			if q.heap[c].at < q.heap[least].at {
				least = c
			}
		}
		if q.heap[least].at >= x.at {
			break
		}
		q.put(i, q.heap[least])
		i = least
	}
	q.put(i, x)
}

func (q *timerQueue) put(i int, x timerEntry) {
	q.heap[i] = x
	x.qp.timers.pos = int32(i + 1)
}

// first returns the QP whose timer is due next, and its time. It drops or moves entries whose
// timers were stopped or delayed.
func (q *timerQueue) first() (qp *QP, at int64) {
	for len(q.heap) > 0 {
		top := q.heap[0]
		at, ok := top.qp.timers.next()
		switch {
		case !ok:
			q.removeAt(0)
		case at > top.at:
			q.down(0, timerEntry{at, top.qp})
		default:
			return top.qp, at
		}
	}
	return nil, 0
}

// removeAt removes the entry at index i.
func (q *timerQueue) removeAt(i int) {
	q.heap[i].qp.timers.pos = 0
	n := len(q.heap) - 1
	last := q.heap[n]
	q.heap[n] = timerEntry{}
	q.heap = q.heap[:n]
	if i == n {
		return
	}
	if i > 0 && q.heap[(i-1)/timerFan].at > last.at {
		q.up(i, last)
		return
	}
	q.down(i, last)
}

// dropTimers stops all timers of a QP and removes it from the queue.
func (qp *QP) dropTimers() {
	qp.timers.set = 0
	if p := qp.timers.pos; p != 0 {
		qp.e.timers.removeAt(int(p - 1))
	}
}

// HandleTimeout runs the timers due at now. The caller must have handled all packets that had
// arrived by then, since a timer assumes that there are no others.
func (e *Engine) HandleTimeout(now int64) { e.HandleTimeoutUntil(now, now) }

// HandleTimeoutUntil runs, at time now, the timers that were due at horizon. The caller has handled
// all packets up to horizon. It is for callers that receive packets faster than they handle them,
// and never see an empty queue.
func (e *Engine) HandleTimeoutUntil(now, horizon int64) {
	e.now = now
	for {
		qp, at := e.timers.first()
		if qp == nil || at > horizon {
			return
		}
		t := &qp.timers
		for id := timerID(0); id < numTimers; id++ {
			if t.set&(1<<id) != 0 && t.at[id] <= horizon {
				t.set &^= 1 << id
				qp.onTimer(now, id)
			}
		}
	}
}

// NextTimeout returns when HandleTimeout is due, or false if no timer is running.
func (e *Engine) NextTimeout() (at int64, ok bool) {
	qp, at := e.timers.first()
	return at, qp != nil
}

// onTimer passes an expired timer to its owner.
func (qp *QP) onTimer(now int64, id timerID) {
	switch id {
	case timerAck:
		qp.sq.ackTimeout(now)
	case timerProbe:
		qp.sq.probeTimeout(now)
	case timerRNR:
		qp.sq.rnrExpired(now)
	case timerPace:
		qp.markReady()
	case timerMissing:
		qp.sq.missingTimeout(now)
	case timerFlight:
		qp.sq.dischargeAll()
	default:
		qp.resp.onTimer(now, id)
	}
}
