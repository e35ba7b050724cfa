package transport

import "github.com/goroce/goroce/ib"

// answer is something owed to the peer: an acknowledgement, or the response to
// a READ, atomic, ATOMIC WRITE or FLUSH.
type answer struct {
	op    ib.Operation // what is answered; OpSend for a plain acknowledgement
	dup   bool         // answers a duplicate
	mends bool         // a part of a READ that was lost, and goes before the rest
	cut   bool         // the first packet of an answer that does not go on
	rkey  ib.RKey
	msn   ib.MSN // after the message that is answered
	first uint64 // sequence number of the request as it was first executed
	start uint64 // sequence number of the first packet of this answer
	at    uint64 // next one to send, from start to last
	last  uint64
	va    uint64 // READ: address of the byte at first
	end   uint64 // READ: offset of the end of the data from va, bytes
	value uint64 // atomics: the original value
}

// answerQueue is what is owed, oldest first: a ring that grows on demand, so
// that an idle QP has none, up to maxAnswers. The newest acknowledgement of
// SENDs and WRITEs is not in the ring but the flag ack: it stands behind
// everything in the ring and covers all that was executed, however much that
// is by the time it is sent.
type answerQueue struct {
	head uint32
	tail uint32
	ack  bool
	// starved is set while the last credit code sent was 0.
	starved bool
	ring    []answer // length is a power of two, or 0

	// stream is the memory of the READ at the head, while that is being sent.
	stream stream
}

func (q *answerQueue) len() int { return int(q.tail - q.head) }

func (q *answerQueue) full() bool { return q.len() >= maxAnswers }

func (q *answerQueue) at(i uint32) *answer { return &q.ring[i&uint32(len(q.ring)-1)] }

func (q *answerQueue) front() *answer { return q.at(q.head) }

// push appends a; the caller has seen that the queue is not full.
func (q *answerQueue) push(a *answer) {
	if q.len() == len(q.ring) {
		q.grow()
	}
	*q.at(q.tail) = *a
	q.tail++
}

// pushFront puts a before all but those that came to be there in the same way.
func (q *answerQueue) pushFront(a *answer) {
	if q.len() == len(q.ring) {
		q.grow()
	}
	q.stream.close()
	q.head--
	i := q.head
	for ; i+1 != q.tail && q.at(i+1).mends; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	*q.at(i) = *a
}

func (q *answerQueue) grow() {
	ring := make([]answer, max(2*len(q.ring), minAnswers))
	n := 0
	for i := q.head; i != q.tail; i++ {
		ring[n] = *q.at(i)
		n++
	}
	q.ring, q.head, q.tail = ring, 0, uint32(n)
}

func (q *answerQueue) pop() {
	q.head++
	q.stream.close()
}

// reset drops everything that is owed but keeps the ring.
func (q *answerQueue) reset() {
	q.head, q.tail, q.ack = 0, 0, false
	q.stream.close()
}

// pending returns the answer in the queue that stems from the request whose
// first packet is first, nil if there is none.
func (q *answerQueue) pending(first uint64) *answer {
	for i := q.head; i != q.tail; i++ {
		if a := q.at(i); a.op != ib.OpSend && a.first == first && !a.mends {
			return a
		}
	}
	return nil
}

// acknowledge notes that the newest request executed, a packet of a SEND or
// WRITE, is to be acknowledged. One ACK answers all such requests up to the
// next PollTransmit, unless Tuning.DisableAckCoalesce is set.
func (r *responder) acknowledge() {
	c := &r.qp.e.counters
	if r.qp.e.cfg.Tuning.DisableAckCoalesce && r.queueAck(r.next-1, r.msn) {
		return
	}
	if r.out.ack {
		c.CoalescedAcks++
		return
	}
	c.AckDeferred++
	r.out.ack = true
	r.qp.markReady()
}

// queueAck puts an acknowledgement of its own into the ring; false if that is
// full.
func (r *responder) queueAck(seq uint64, msn ib.MSN) bool {
	q := &r.out
	if q.full() {
		return false
	}
	q.push(&answer{op: ib.OpSend, first: seq, start: seq, at: seq, last: seq, msn: msn})
	r.qp.e.counters.AckDeferred++
	r.qp.markReady()
	return true
}

// owe queues the answer to a READ, atomic, ATOMIC WRITE or FLUSH. It
// acknowledges everything before (IBTA 9.7.5.1.2), so that an ACK that is still
// owed need not be sent.
func (r *responder) owe(a *answer) {
	c := &r.qp.e.counters
	q := &r.out
	if q.ack && !a.dup {
		q.ack = false
		c.CoalescedAcks++
	}
	q.push(a)
	c.AckDeferred++
	r.qp.markReady()
}

// credits returns the syndrome of an ACK sent now. End-to-end credits tell how
// many receive requests are posted (IBTA 9.7.7.2); a QP on an SRQ cannot know.
func (r *responder) credits() ib.Syndrome {
	qp := r.qp
	if !qp.e.cfg.Tuning.EndToEndCredits || qp.srq != nil {
		return ib.ACKNoCredits
	}
	n := qp.rq.posted()
	if r.msg.recv != nil {
		n++ // of the message in progress, which the MSN does not count yet
	}
	c := ib.CreditCodeFor(n)
	r.out.starved = c == 0
	return ib.ACKCredit(c)
}

// recvPosted tells the peer, by an ACK that it did not ask for, that there are
// receive requests again after it was told that there are none (IBTA 9.7.7.2.2).
// It is called when a receive request was posted.
func (r *responder) recvPosted() {
	if !r.out.starved || r.qp.state < StateRTR || r.qp.state == StateErr {
		return
	}
	if n := r.store.newest(); n != nil && n.last == r.next-1 || r.next == r.base {
		// An ACK of this PSN would stand in for the answer to a READ or atomic, or
		// there is nothing to acknowledge yet.
		return
	}
	r.out.starved = false
	r.out.ack = true
	r.qp.markReady()
}
