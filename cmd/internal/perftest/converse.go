package perftest

import (
	"context"
	"time"
)

// The order of messages on the TCP connection is that of the original of each test. With K an
// exchange of one QP's keys and R one of reports, for q QPs and n sizes (TestExchanges holds this):
//
//	write_bw, read_bw, atomic_bw        qK qK K | run | K R K
//	the same, bidirectional             qK qK K | K run R | K      one size
//	                                    qK qK K | n(K run K R) | K
//	send_bw                             qK K qK | K run | K        one size
//	                                    qK K qK | n(K run K) | K
//	send_bw, bidirectional              as send_bw, with R after each run
//	send_lat                            K K K | n(K run) | K
//	write_lat                           K K K K | n(run)
//	read_lat, atomic_lat                K K K K | n(run) | K

func (s *session) barrier() error { return s.x.barrier() }

// converse is the test itself, in the order of messages that the original of each test has.
func (s *session) converse(ctx context.Context) error {
	s.p.banner(s.place.Name(), s.x.mtu, s.gidIndex, s.res.outReads)
	if err := s.introduce(); err != nil {
		return err
	}
	switch {
	case s.o.Test.Latency:
		return s.converseLatency(ctx)
	case s.o.Test.Verb == Send:
		return s.converseSend(ctx)
	case s.o.Bidirectional:
		return s.converseBoth(ctx)
	}
	return s.converseOneWay(ctx)
}

// introduce exchanges keys and connects the QPs. The keys are exchanged twice:
// the second time says that the sender's QPs are connected.
func (s *session) introduce() error {
	t := s.o.Test
	if t.Latency && t.Verb != Send {
		if err := s.barrier(); err != nil {
			return err
		}
	}
	if err := s.x.keys(); err != nil {
		return err
	}
	if err := s.connectQPs(); err != nil {
		return err
	}
	if t.Verb == Send {
		if err := s.barrier(); err != nil {
			return err
		}
	}
	for i := range s.x.mine {
		s.p.dest("local", &s.x.mine[i])
	}
	if err := s.x.keys(); err != nil {
		return err
	}
	for i := range s.x.peer {
		s.p.dest("remote", &s.x.peer[i])
	}
	if t.Verb != Send {
		return s.barrier()
	}
	return nil
}

// converseOneWay is WRITE, READ or atomics in one direction: the server does nothing but wait.
func (s *session) converseOneWay(ctx context.Context) error {
	if s.o.Driver() {
		s.p.head()
		for _, size := range s.sizes() {
			if err := s.driveOnce(ctx, size, nil); err != nil {
				return err
			}
		}
		s.p.foot()
		if err := s.barrier(); err != nil {
			return err
		}
		if _, err := s.x.swapReport(s.mine); err != nil {
			return err
		}
		return s.x.finish()
	}
	if s.o.Test.Verb != Atomic {
		s.p.head()
	} else {
		s.p.foot()
	}
	if err := s.barrier(); err != nil { // the client is through
		return err
	}
	theirs, err := s.x.swapReport(bwReport{})
	if err != nil {
		return err
	}
	s.row(theirs)
	s.p.foot()
	return s.x.finish()
}

// row prints a result and keeps it.
func (s *session) row(r bwReport) {
	s.mine = r
	s.rows = append(s.rows, r.json())
	s.p.bw(r)
}

// driveOnce measures one size; before, if not nil, is called between the
// warm-up and the measurement.
func (s *session) driveOnce(ctx context.Context, size int, before func() error) error {
	report, err := s.measure(ctx, size, before)
	if err != nil {
		return err
	}
	s.row(report)
	return nil
}

// measure runs the requester for one size.
func (s *session) measure(ctx context.Context, size int, before func() error) (bwReport, error) {
	s.walkAs(size)
	if s.o.WarmUp && s.o.Test.Verb != Send {
		if err := s.warmUp(ctx, size); err != nil {
			return bwReport{}, err
		}
	}
	if before != nil {
		if err := before(); err != nil {
			return bwReport{}, err
		}
	}
	r := s.newRunner(ctx)
	defer r.close()
	return r.requester(size, uint64(s.o.Iters)).run()
}

// warmUp sends one queue full of messages that do not count.
func (s *session) warmUp(ctx context.Context, size int) error {
	r := s.newRunner(ctx)
	defer r.close()
	r.watch = stopwatch{}
	q := r.requester(size, uint64(s.o.TxDepth))
	q.postedAt, q.doneAt = nil, nil
	_, err := q.run()
	return err
}

// converseBoth is WRITE, READ or atomics in both directions.
func (s *session) converseBoth(ctx context.Context) error {
	s.p.head()
	var theirs bwReport
	for _, size := range s.sizes() {
		mine, err := s.measure(ctx, size, s.barrier)
		if err != nil {
			return err
		}
		if s.o.All {
			if err := s.barrier(); err != nil {
				return err
			}
		}
		if theirs, err = s.x.swapReport(mine); err != nil {
			return err
		}
		s.row(mine.plus(theirs))
		if s.o.ReportBoth && !s.o.All {
			s.p.both(mine, theirs)
		}
	}
	s.p.foot()
	return s.x.finish()
}

// converseSend is SEND in one or both directions: both sides measure.
func (s *session) converseSend(ctx context.Context) error {
	s.p.head()
	for _, size := range s.sizes() {
		if err := s.sendOnce(ctx, size); err != nil {
			return err
		}
		if s.o.All {
			if err := s.barrier(); err != nil {
				return err
			}
		}
	}
	s.p.foot()
	return s.x.finish()
}

func (s *session) sendOnce(ctx context.Context, size int) error {
	r := s.newRunner(ctx)
	defer r.close()
	s.walkAs(size)
	iters := uint64(s.o.Iters)
	var v *receiver
	if s.o.receives() {
		var err error
		if v, err = r.receiver(size, iters); err != nil {
			return err
		}
	}
	if err := s.barrier(); err != nil { // receives are posted
		return err
	}
	var report bwReport
	var err error
	switch {
	case v == nil:
		report, err = r.requester(size, iters).run()
	case s.o.Bidirectional:
		report, err = runBoth(r.requester(size, iters), v)
	default:
		report, err = v.run(size)
	}
	if err != nil {
		return err
	}
	if !s.o.Bidirectional || s.o.durationSet {
		s.row(report)
		return nil
	}
	theirs, err := s.x.swapReport(report)
	if err != nil {
		return err
	}
	s.row(report.plus(theirs))
	if s.o.ReportBoth && !s.o.All {
		s.p.both(report, theirs)
	}
	return nil
}

// lingerAfterTime is how long write_lat with -D keeps answering after its time
// is up: nothing tells the peer, whose last WRITE may still be on its way.
const lingerAfterTime = 200 * time.Millisecond

func (s *session) linger(ctx context.Context) {
	defer s.keepAlive()()
	select {
	case <-time.After(lingerAfterTime):
	case <-ctx.Done():
	}
}

func (s *session) converseLatency(ctx context.Context) error {
	v := s.o.Test.Verb
	if v >= Read && !s.o.Driver() {
		err := s.x.finish() // waits for the client's end
		s.p.foot()
		return err
	}
	s.p.head()
	for _, size := range s.sizes() {
		if err := s.runLatency(ctx, size); err != nil {
			return err
		}
	}
	switch v {
	case Write:
		s.p.foot()
		if s.o.durationSet {
			s.linger(ctx)
		}
		return s.x.conn.Close()
	case Send:
		s.p.foot()
		return s.x.finish()
	}
	if err := s.x.finish(); err != nil {
		return err
	}
	s.p.foot()
	return nil
}
