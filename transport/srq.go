package transport

import (
	"fmt"

	"github.com/goroce/goroce/mem"
)

// SRQ is a shared receive queue. Its home is the engine that made it. QPs of other engines can
// receive from it after [SRQ.Share], which makes its methods safe to call beside any engine.
type SRQ struct {
	e        *Engine // the home
	pd       *mem.PD
	userData any
	shared
	// Under the lock of the home, or the SRQ's own if it is shared:
	q       recvQueue
	limit   int // raise the event when fewer are posted; 0: off
	pending eventSet
}

// SRQAttr describes a shared receive queue.
type SRQAttr struct {
	MaxWR  int
	MaxSGE int
	Limit  int // raise EventSRQLimitReached when fewer are left; 0: off
}

// CreateSRQ makes a shared receive queue. It ignores the limit, as ibv_create_srq does, because a
// new SRQ is empty; Modify arms it.
func (e *Engine) CreateSRQ(pd *mem.PD, a SRQAttr, userData any) (*SRQ, error) {
	const op = "create SRQ"
	switch {
	case a.MaxWR < 1 || a.MaxWR > MaxQueueWR:
		return nil, argError(op, "max_wr", fmt.Sprintf("%d is not in 1..%d", a.MaxWR, MaxQueueWR))
	case a.MaxSGE < 0 || a.MaxSGE > MaxSGE:
		return nil, argError(op, "max_sge", fmt.Sprintf("%d is not in 0..%d", a.MaxSGE, MaxSGE))
	}
	if err := e.retainPD(op, pd, &e.srqs); err != nil {
		return nil, err
	}
	s := &SRQ{e: e, pd: pd, userData: userData}
	s.q.init(a.MaxWR, a.MaxSGE)
	e.events.reserve(srqEvents)
	return s, nil
}

// PostRecv queues a receive work request. It does not notify QPs that sent an RNR NAK: their peers
// try again.
func (s *SRQ) PostRecv(wr *RecvWR) error {
	locked := s.lock()
	err := s.post(wr)
	s.unlock(locked)
	return err
}

func (s *SRQ) post(wr *RecvWR) error {
	if s.destroyed() {
		return &EngineError{Op: "post receive", Err: ErrDestroyed}
	}
	if err := s.q.check(wr); err != nil {
		return err
	}
	s.q.post(wr)
	return nil
}

// take hands out the oldest request to a QP of e. Below the limit it raises the limit event, once,
// and disarms it (IBTA 10.2.9.2).
func (s *SRQ) take(e *Engine) *recvWQE {
	locked := s.lock()
	w := s.q.take()
	if w != nil && s.limit > 0 && s.q.posted() < s.limit {
		s.limit = 0
		e.events.push(&s.pending, Event{Type: EventSRQLimitReached, SRQ: s})
	}
	s.unlock(locked)
	return w
}

// recycle returns a taken request after its completion.
func (s *SRQ) recycle(w *recvWQE) {
	locked := s.lock()
	s.q.recycle(w)
	s.unlock(locked)
}

// giveBack makes a taken request the oldest again.
func (s *SRQ) giveBack(w *recvWQE) {
	locked := s.lock()
	s.q.giveBack(w)
	s.unlock(locked)
}

// Modify arms the limit event or resizes the queue (ibv_modify_srq). A negative argument leaves its
// attribute as it is. The limit may not exceed the size, and the size may not fall below the
// requests in use; on error nothing changes. A limit above what is posted fires at the next
// receive.
func (s *SRQ) Modify(limit, maxWR int) error {
	const op = "modify SRQ"
	defer s.unlock(s.lock())
	if s.destroyed() {
		return &EngineError{Op: op, Err: ErrDestroyed}
	}
	size := s.q.capacity
	if maxWR >= 0 {
		size = maxWR
	}
	switch {
	case size < 1 || size > MaxQueueWR:
		return argError(op, "max_wr", fmt.Sprintf("%d is not in 1..%d", size, MaxQueueWR))
	case size < s.q.used:
		return argError(op, "max_wr", fmt.Sprintf("%d is below the %d in use", size, s.q.used))
	case limit > size:
		return argError(op, "srq_limit", fmt.Sprintf("%d exceeds max_wr %d", limit, size))
	case limit < 0 && s.limit > size:
		return argError(op, "max_wr", fmt.Sprintf("%d is below the armed limit %d", size, s.limit))
	}
	s.q.capacity = size
	if limit >= 0 {
		s.limit = limit
	}
	return nil
}

// Query returns the attributes. A limit that has fired reads 0.
func (s *SRQ) Query() SRQAttr {
	defer s.unlock(s.lock())
	return SRQAttr{MaxWR: s.q.capacity, MaxSGE: s.q.maxSGE, Limit: s.limit}
}

// UserData returns the userData argument of CreateSRQ.
func (s *SRQ) UserData() any { return s.userData }

// Destroy removes the SRQ, or fails with ErrBusy while QPs use it. Only the home may call it.
// Posted receives are dropped without completions, as are the SRQ's events in the home; other
// engines drop theirs when they come to them.
func (s *SRQ) Destroy() error {
	if users, ok := s.end(); !ok {
		if users < 0 {
			return &EngineError{Op: "destroy SRQ", Err: ErrDestroyed}
		}
		return opErr("destroy SRQ", ErrBusy, "%d queue pairs", users)
	}
	s.pd.Release()
	locked := s.lock()
	s.q = recvQueue{}
	s.unlock(locked)
	s.e.events.purge(func(ev *Event) bool { return ev.SRQ == s })
	s.e.events.release(srqEvents)
	s.e.srqs--
	return nil
}
