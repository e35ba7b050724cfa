package transport

// recvQueue is the receive queue of a QP or an SRQ. A request is either in a slot of the ring of
// posted requests, or with the responder that took it. It counts against the capacity until it is
// recycled.
//
// A queue is empty until the first request and then grows up to its capacity, as a send queue does.
// Consecutive requests without memory and with the same ID share a slot, because a program whose
// peer only writes posts hundreds of them.
type recvQueue struct {
	ring     []*recvWQE // posted, oldest at head; length is a power of two, or 0
	head     uint32
	tail     uint32
	free     []*recvWQE
	waiting  int // requests posted and not taken
	used     int // posted and taken
	capacity int
	maxSGE   int
	alloc    int // existing slots
}

// recvWQE is one receive work request, or several equal ones.
type recvWQE struct {
	id    uint64
	sges  []SGE  // into the slot's own array
	total uint64 // sum of the SGE lengths, bytes
	more  int    // equal requests without memory that follow it
}

// init allows n requests of up to sge elements.
func (q *recvQueue) init(n, sge int) { q.capacity, q.maxSGE = n, sge }

// slot returns a free slot. Each slot in use holds a request in use, so the capacity bounds the
// slots.
func (q *recvQueue) slot() *recvWQE {
	if len(q.free) == 0 {
		q.grow(min(max(2*q.alloc, minRecvSlots), q.capacity))
	}
	w := q.free[len(q.free)-1]
	q.free = q.free[:len(q.free)-1]
	return w
}

// grow raises the number of slots to n when none is free. Existing ones stay in place, since
// responders hold pointers to them.
func (q *recvQueue) grow(n int) {
	more := n - q.alloc
	slots := make([]recvWQE, more)
	sges := make([]SGE, more*q.maxSGE)
	q.free = make([]*recvWQE, 0, n)
	for i := range slots {
		w := &slots[i]
		w.sges = sges[i*q.maxSGE : i*q.maxSGE : (i+1)*q.maxSGE]
		q.free = append(q.free, w)
	}
	q.alloc = n
	size := max(len(q.ring), 1)
	for size < n {
		size *= 2
	}
	if size == len(q.ring) {
		return
	}
	ring := make([]*recvWQE, size)
	for i := q.head; i != q.tail; i++ {
		ring[i&uint32(size-1)] = q.ring[i&uint32(len(q.ring)-1)]
	}
	q.ring = ring
}

// posted returns how many requests wait to be taken.
func (q *recvQueue) posted() int { return q.waiting }

// check reports why wr cannot be posted.
func (q *recvQueue) check(wr *RecvWR) error {
	if wr == nil {
		return errNilRequest("post receive")
	}
	if len(wr.SGList) > q.maxSGE {
		return opErr("post receive", ErrTooManySGE, "%d, at most %d", len(wr.SGList), q.maxSGE)
	}
	if q.used >= q.capacity {
		return &EngineError{Op: "post receive", Err: ErrQueueFull}
	}
	return nil
}

// post appends a request that passed check.
func (q *recvQueue) post(wr *RecvWR) {
	q.used++
	q.waiting++
	if len(wr.SGList) == 0 && q.head != q.tail {
		if last := q.ring[(q.tail-1)&uint32(len(q.ring)-1)]; len(last.sges) == 0 && last.id == wr.ID {
			last.more++
			return
		}
	}
	w := q.slot()
	w.id = wr.ID
	w.sges = append(w.sges[:0], wr.SGList...)
	w.total = 0
	for i := range w.sges {
		w.total += uint64(w.sges[i].Length)
	}
	q.ring[q.tail&uint32(len(q.ring)-1)] = w
	q.tail++
}

// take removes the oldest posted request, or returns nil.
func (q *recvQueue) take() *recvWQE {
	if q.head == q.tail {
		return nil
	}
	q.waiting--
	slot := &q.ring[q.head&uint32(len(q.ring)-1)]
	w := *slot
	if w.more > 0 {
		w.more--
		id := w.id
		w = q.slot()
		w.id, w.sges, w.total = id, w.sges[:0], 0
		return w
	}
	*slot = nil
	q.head++
	return w
}

// giveBack makes a taken request the oldest again.
func (q *recvQueue) giveBack(w *recvWQE) {
	q.waiting++
	q.head--
	q.ring[q.head&uint32(len(q.ring)-1)] = w
}

// recycle returns a taken request to the free list.
func (q *recvQueue) recycle(w *recvWQE) {
	q.used--
	q.free = append(q.free, w)
}

// clear drops every posted request.
func (q *recvQueue) clear() {
	for w := q.take(); w != nil; w = q.take() {
		q.recycle(w)
	}
}

// PostRecv queues a receive work request. On an error nothing is queued: ErrInvalidState in RESET
// and on a QP with an SRQ, ErrQueueFull, ErrTooManySGE. In ERR the request is flushed at once.
// PostRecv starts no timer, so the shell need not read its clock.
func (qp *QP) PostRecv(wr *RecvWR) error {
	switch {
	case qp.gone:
		return &EngineError{Op: "post receive", Err: ErrDestroyed}
	case qp.srq != nil:
		return opErr("post receive", ErrInvalidState, "the QP has an SRQ")
	case qp.state == StateReset:
		return opErr("post receive", ErrInvalidState, "RESET")
	}
	if err := qp.rq.check(wr); err != nil {
		return err
	}
	qp.rq.post(wr)
	if qp.state == StateErr {
		qp.flushRecv()
	}
	qp.resp.recvPosted()
	return nil
}

// takeRecv returns the next receive request of the QP's queue or SRQ, or nil. The request is valid
// until recycleRecv; a QP holds one at a time.
func (qp *QP) takeRecv() *recvWQE {
	if qp.curRecv != nil {
		panic("transport: second receive request taken")
	}
	if qp.srq != nil {
		qp.curRecv = qp.srq.take(qp.e)
	} else {
		qp.curRecv = qp.rq.take()
	}
	return qp.curRecv
}

// recycleRecv gives back the request that takeRecv returned, before its completion is visible.
func (qp *QP) recycleRecv(w *recvWQE) {
	if w != qp.curRecv {
		panic("transport: receive request recycled twice")
	}
	qp.curRecv = nil
	if qp.srq != nil {
		qp.srq.recycle(w)
	} else {
		qp.rq.recycle(w)
	}
}

// leaveRecv releases, without a completion, the request that takeRecv returned: its message will
// not end. A request of an SRQ goes back there: other QPs share it, and the application awaits its
// completion.
func (qp *QP) leaveRecv() {
	switch w := qp.curRecv; {
	case w == nil:
	case qp.srq != nil:
		qp.curRecv = nil
		qp.srq.giveBack(w)
	default:
		qp.recycleRecv(w)
	}
}
