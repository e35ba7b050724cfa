package transport

import "github.com/goroce/goroce/ib"

// answer is owed to the peer: an acknowledgement, or the response to a READ, atomic, ATOMIC WRITE
// or FLUSH.
type answer struct {
	op    ib.Operation // the operation answered; OpSend for a plain acknowledgement
	dup   bool         // the answer to a duplicate
	mends bool         // a lost part of a READ, sent before the rest
	cut   bool         // only the first packet of an answer
	rkey  ib.RKey
	msn   ib.MSN // after the answered message
	first uint64 // sequence number of the request as it was first executed
	start uint64 // sequence number of the first packet of this answer
	at    uint64 // next one to send, from start to last
	last  uint64
	va    uint64 // READ: address of the byte at first
	end   uint64 // READ: offset of the end of the data from va, bytes
	value uint64 // atomics: the original value
}

// answerQueue is a ring of owed answers, oldest first. It grows on demand up to maxAnswers, so that
// an idle QP has none. The flag ack stands for the newest acknowledgement of SENDs and WRITEs,
// behind everything in the ring. It covers all that was executed by the time it is sent.
type answerQueue struct {
	head uint32
	tail uint32
	ack  bool
	// starved is set while the last credit code sent was 0.
	starved bool
	ring    []answer // length is a power of two, or 0

	// stream is the memory of the READ at the head while it is being sent.
	stream stream
}

func (q *answerQueue) len() int { return int(q.tail - q.head) }

func (q *answerQueue) full() bool { return q.len() >= maxAnswers }

func (q *answerQueue) at(i uint32) *answer { return &q.ring[i&uint32(len(q.ring)-1)] }

func (q *answerQueue) front() *answer { return q.at(q.head) }

// push appends a. The caller has checked that the queue is not full.
func (q *answerQueue) push(a *answer) {
	if q.len() == len(q.ring) {
		q.grow()
	}
	*q.at(q.tail) = *a
	q.tail++
}

// pushFront puts a before all answers except those already put there by pushFront.
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

// reset drops all owed answers but keeps the ring.
func (q *answerQueue) reset() {
	q.head, q.tail, q.ack = 0, 0, false
	q.stream.close()
}

// pending returns the queued answer to the request that begins at first, or nil. It ignores answers
// put in by pushFront.
func (q *answerQueue) pending(first uint64) *answer {
	for i := q.head; i != q.tail; i++ {
		if a := q.at(i); a.op != ib.OpSend && a.first == first && !a.mends {
			return a
		}
	}
	return nil
}

// acknowledge notes that the newest executed request, a packet of a SEND or WRITE, needs an ACK.
// One ACK answers all such requests up to the next PollTransmit, unless Tuning.DisableAckCoalesce
// is set.
func (r *responder) acknowledge() {
	c := &r.qp.e.counters
	r.unasked = false
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

// queueAck puts a separate acknowledgement into the ring. It returns false if the ring is full.
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

// owe queues the answer to a READ, atomic, ATOMIC WRITE or FLUSH. Unless it is for a duplicate, it
// acknowledges everything before it (IBTA 9.7.5.1.2), so a pending ACK is dropped.
func (r *responder) owe(a *answer) {
	c := &r.qp.e.counters
	q := &r.out
	r.unasked = r.unasked && a.dup
	if q.ack && !a.dup {
		q.ack = false
		c.CoalescedAcks++
	}
	q.push(a)
	c.AckDeferred++
	r.qp.markReady()
}

// credits returns the syndrome of an ACK sent now. End-to-end credits count the posted receive
// requests (IBTA 9.7.7.2); a QP on an SRQ cannot know them.
func (r *responder) credits() ib.Syndrome {
	qp := r.qp
	if !qp.e.cfg.Tuning.EndToEndCredits || qp.srq != nil {
		return ib.ACKNoCredits
	}
	n := qp.rq.posted()
	if r.msg.recv != nil {
		n++ // for the message in progress, which the MSN does not count yet
	}
	c := ib.CreditCodeFor(n)
	r.out.starved = c == 0
	return ib.ACKCredit(c)
}

// recvPosted is called after a receive request was posted. If the peer was told that there are
// none, recvPosted sends an unsolicited ACK with new credits (IBTA 9.7.7.2.2).
func (r *responder) recvPosted() {
	if !r.out.starved || r.qp.state < StateRTR || r.qp.state == StateErr {
		return
	}
	if n := r.store.newest(); n != nil && n.last == r.next-1 || r.next == r.base {
		// An ACK of this PSN would replace the answer to a READ or atomic, or there is nothing to
		// acknowledge yet.
		return
	}
	r.out.starved = false
	r.out.ack = true
	r.qp.markReady()
}
