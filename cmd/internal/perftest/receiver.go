package perftest

import (
	"fmt"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/verbs"
)

// receiver posts receives on all QPs and takes what arrives.
type receiver struct {
	*runner
	size     int
	iters    uint64 // for each QP; 0 without bound
	lanes    []recvLane
	received uint64 // all QPs
	progress *tool.Progress
}

// recvLane is one QP of a receiver, or its share of the shared queue.
type recvLane struct {
	e      *endpoint
	index  int
	posted uint64
	sge    [1]verbs.SGE
}

// receiver posts the first receives.
func (r *runner) receiver(size int, iters uint64) (*receiver, error) {
	s := r.s
	v := &receiver{runner: r, size: s.o.recvSize(size), iters: iters, lanes: make([]recvLane, len(s.res.endpoints))}
	depth := s.o.RxDepth
	if s.res.srq != nil {
		depth /= len(v.lanes)
	}
	for i := range v.lanes {
		l := &v.lanes[i]
		l.e, l.index = &s.res.endpoints[i], i
		for range depth {
			if err := v.post(l); err != nil {
				return nil, err
			}
		}
	}
	v.progress = tool.NewProgress(s.env, s.o.Test.Name(), iters*uint64(len(v.lanes)), size)
	return v, nil
}

func (v *receiver) post(l *recvLane) error {
	l.sge[0] = l.e.mr.SGE(l.e.recv.at(l.posted), v.size)
	wr := verbs.RecvWR{ID: recvID(l.index), SGList: l.sge[:]}
	var err error
	if srq := v.s.res.srq; srq != nil {
		err = srq.PostRecv(&wr)
	} else {
		err = l.e.qp.PostRecv(&wr)
	}
	if err != nil {
		return fmt.Errorf("post receive %d on QP %d: %w", l.posted+1, l.index, err)
	}
	l.posted++
	return nil
}

// complete takes note of a received message and posts a receive for another,
// unless no more are expected.
func (v *receiver) complete(wc *verbs.WC) error {
	v.received++
	l := &v.lanes[qpOf(wc.ID)]
	if v.iters > 0 && l.posted >= v.iters {
		return nil
	}
	return v.post(l)
}

// finished reports whether all messages of a test by iterations arrived.
func (v *receiver) finished() bool {
	return v.iters > 0 && v.received >= v.iters*uint64(len(v.lanes))
}

// run receives until all messages arrived or the time is up. The time begins
// with the first message.
func (v *receiver) run(size int) (bwReport, error) {
	defer v.progress.Done()
	var first int64
	err := v.completions(v.finished, nil, func(wcs []verbs.WC, now int64) error {
		if first == 0 {
			first = now
			v.begin(now)
		}
		v.watch.count(now, uint64(len(wcs)))
		for i := range wcs {
			if err := v.complete(&wcs[i]); err != nil {
				return err
			}
		}
		v.progress.Update(v.received)
		return nil
	})
	if err != nil {
		return bwReport{}, err
	}
	if v.watch.total > 0 {
		return bwOf(size, v.watch.samples, v.watch.sampled(), 0, v.s.o.ReportGbits), nil
	}
	return bwOf(size, v.received, nowNs()-first, 0, v.s.o.ReportGbits), nil
}

// runBoth sends and receives at once. The server sends nothing before the
// first message arrived, by which the client says that it is there.
func runBoth(q *requester, v *receiver) (bwReport, error) {
	defer q.progress.Done()
	start := nowNs()
	sending := q.s.o.Driver()
	if sending {
		q.begin(start)
	}
	finished := func() bool { return q.finished() && v.finished() }
	fill := func() error {
		if !sending {
			return nil
		}
		return q.fill()
	}
	err := q.completions(finished, fill, func(wcs []verbs.WC, now int64) error {
		for i := range wcs {
			wc := &wcs[i]
			if wc.ID&idRecv == 0 {
				q.watch.count(now, q.complete(wc, now))
				continue
			}
			if !sending {
				sending = true
				q.begin(now)
			}
			q.watch.count(now, 1)
			if err := v.complete(wc); err != nil {
				return err
			}
		}
		q.progress.Update(q.done)
		return nil
	})
	if err != nil {
		return bwReport{}, err
	}
	return q.report(nowNs() - start), nil
}
