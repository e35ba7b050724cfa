package verbs

import (
	"sync/atomic"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// SRQ is a shared receive queue (ibv_srq).
type SRQ struct {
	d *Device
	s *shard.Shard // its engine has t
	t *transport.SRQ

	dead atomic.Bool
}

// SRQAttr are the attributes of a shared receive queue (ibv_srq_attr).
type SRQAttr struct {
	MaxWR  int // receives that have not completed; 0 is 128
	MaxSGE int // elements of a receive; 0 is 4
	// Fewer receives than that raise EventSRQLimitReached, once; 0 is off. [SRQ.Modify] arms it,
	// CreateSRQ does not.
	Limit int
}

// CreateSRQ makes a shared receive queue, with the defaults of [SRQAttr]. It is empty, so no limit
// can be armed yet.
func (pd *PD) CreateSRQ(a SRQAttr) (*SRQ, error) {
	if a.MaxWR == 0 {
		a.MaxWR = defaultMaxWR
	}
	if a.MaxSGE == 0 {
		a.MaxSGE = defaultMaxSGE
	}
	d := pd.Device()
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.unlock()
	s := &SRQ{d: d, s: d.s}
	t, err := s.s.Engine().CreateSRQ(pd.t, transport.SRQAttr(a), s)
	if err != nil {
		return nil, own(err)
	}
	s.t = t
	return s, nil
}

// PostRecv queues a receive work request.
func (s *SRQ) PostRecv(wr *RecvWR) error {
	if s.s == nil {
		return access.ErrZero
	}
	if err := s.s.Lock(); err != nil {
		return err
	}
	err := s.t.PostRecv(engineRecv(wr))
	s.s.Unlock()
	return own(err)
}

// Modify arms the limit event (0 disarms it) and changes the size; a negative argument leaves that
// attribute unchanged.
func (s *SRQ) Modify(limit, maxWR int) error {
	return doOn(s.s, func(int64) error { return s.t.Modify(limit, maxWR) })
}

// Query returns the attributes; Limit is 0 when the event is not armed.
func (s *SRQ) Query() (SRQAttr, error) {
	var a SRQAttr
	err := doOn(s.s, func(int64) error { a = SRQAttr(s.t.Query()); return nil })
	return a, err
}

// Close ends the queue (ibv_destroy_srq). It fails with ErrBusy while queue pairs use it.
func (s *SRQ) Close() error {
	err := endOn(s.s, "SRQ", func() error { return s.t.Destroy() })
	if err == nil && s.t != nil {
		s.dead.Store(true)
		s.d.async.forget(func(e *Event) bool { return e.SRQ == s })
	}
	return err
}
