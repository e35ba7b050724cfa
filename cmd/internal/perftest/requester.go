package perftest

import (
	"fmt"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// postBytes bounds what is posted under one lock when messages are small;
// larger messages are posted one by one.
const postBytes = 64 << 10

// requester posts the messages of a bandwidth test on all QPs.
type requester struct {
	*runner
	size   int
	iters  uint64 // for each QP; 0 without bound
	lanes  []lane
	posted uint64 // all QPs
	done   uint64

	postedAt, doneAt []int64 // for the peak; nil if it is not looked for
	progress         *tool.Progress
}

// lane is one QP of a requester.
type lane struct {
	e            *endpoint
	index        int
	peer         *dest
	remote       walk
	posted, done uint64
	wrs          []verbs.SendWR
	sges         []verbs.SGE
}

func (r *runner) requester(size int, iters uint64) *requester {
	s := r.s
	q := &requester{runner: r, size: size, iters: iters}
	batch := min(max(postBytes/size, 1, s.o.PostList), s.o.TxDepth)
	batch -= batch % s.o.PostList
	for i := range s.res.endpoints {
		l := lane{
			e: &s.res.endpoints[i], index: i, peer: &s.x.peer[i],
			remote: walkOf(0, size, s.x.cacheLine, s.x.cycleBuffer),
			wrs:    make([]verbs.SendWR, batch), sges: make([]verbs.SGE, batch),
		}
		for j := range l.wrs {
			l.wrs[j] = s.template(&l, size)
			l.wrs[j].SGList = l.sges[j : j+1 : j+1]
		}
		q.lanes = append(q.lanes, l)
	}
	total := iters * uint64(len(q.lanes))
	if !s.o.NoPeak {
		q.postedAt, q.doneAt = make([]int64, total), make([]int64, total)
	}
	q.progress = tool.NewProgress(s.env, s.o.Test.Name(), total, size)
	return q
}

// template is what all messages of a QP have in common.
func (s *session) template(l *lane, size int) verbs.SendWR {
	wr := verbs.SendWR{RKey: l.peer.RKey}
	switch s.o.Test.Verb {
	case Send:
		wr.Opcode = verbs.WRSend
	case Write:
		wr.Opcode = verbs.WRWrite
	case Read:
		wr.Opcode = verbs.WRRead
	case Atomic:
		// As the original: add 1, or compare with 0 and swap in 0.
		wr.Opcode, wr.CompareAdd = verbs.WRFetchAdd, 1
		if s.o.AtomicType == string(CompareAndSwap) {
			wr.Opcode, wr.CompareAdd = verbs.WRCompareSwap, 0
		}
	}
	if size <= s.o.InlineSize && s.o.Test.Verb <= Write {
		wr.Flags |= verbs.SendInline
	}
	if s.o.Transport == ib.UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = l.e.ah, l.peer.QPN, s.res.qkey
	}
	return wr
}

// signaled reports whether message k of a QP, from 0, makes a completion.
func (q *requester) signaled(k uint64) bool {
	mod := uint64(q.s.o.CQMod)
	return k%mod == mod-1 || k+1 == q.iters
}

// fill posts whatever fits into the send queues.
func (q *requester) fill() error {
	for i := range q.lanes {
		for {
			n, err := q.post(&q.lanes[i])
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}

// post posts one batch on a QP and returns how many messages it had.
func (q *requester) post(l *lane) (int, error) {
	o := q.s.o
	room := o.TxDepth - int(l.posted-l.done)
	if q.iters > 0 {
		room = min(room, int(q.iters-l.posted))
	}
	n := min(room, len(l.wrs))
	n -= n % o.PostList
	if n == 0 {
		return 0, nil
	}
	for j := range n {
		k := l.posted + uint64(j)
		wr := &l.wrs[j]
		wr.ID = sendID(l.index, k+1)
		wr.Flags &^= verbs.SendSignaled
		if q.signaled(k) {
			wr.Flags |= verbs.SendSignaled
		}
		l.sges[j] = l.e.mr.SGE(l.e.send.at(k), q.size)
		wr.RemoteAddr = l.peer.VAddr + uint64(l.remote.at(k))
	}
	now := int64(0)
	if q.postedAt != nil {
		now = nowNs()
	}
	if posted, err := l.e.qp.PostSendBatch(l.wrs[:n]); err != nil {
		return 0, fmt.Errorf("post message %d on QP %d: %w", l.posted+uint64(posted)+1, l.index, err)
	}
	for j := range n {
		if q.postedAt != nil {
			q.postedAt[q.posted+uint64(j)] = now
		}
	}
	l.posted += uint64(n)
	q.posted += uint64(n)
	return n, nil
}

// complete takes note of the completion of a send and returns how many messages it stands for.
func (q *requester) complete(wc *verbs.WC, now int64) uint64 {
	l := &q.lanes[qpOf(wc.ID)]
	n := wc.ID&idSeq - l.done
	l.done += n
	q.done += n
	if q.doneAt != nil {
		q.doneAt[q.done-1] = now
	}
	return n
}

// finished reports whether all messages of a test by iterations are done.
func (q *requester) finished() bool {
	return q.iters > 0 && q.done == q.iters*uint64(len(q.lanes))
}

// report computes the figures; ns is the time of a test by iterations.
func (q *requester) report(ns int64) bwReport {
	if q.watch.total > 0 {
		return bwOf(q.size, q.watch.samples, q.watch.sampled(), 0, q.s.o.ReportGbits)
	}
	peak := 0.0
	if q.postedAt != nil {
		peak = peakNs(q.postedAt, q.doneAt, q.s.o.PostList)
	}
	return bwOf(q.size, q.done, ns, peak, q.s.o.ReportGbits)
}

// run sends until the iterations are done or the time is up.
func (q *requester) run() (bwReport, error) {
	defer q.progress.Done()
	start := nowNs()
	q.begin(start)
	err := q.completions(q.finished, q.fill, func(wcs []verbs.WC, now int64) error {
		for i := range wcs {
			q.watch.count(now, q.complete(&wcs[i], now))
		}
		q.progress.Update(q.done)
		return nil
	})
	if err != nil {
		return bwReport{}, err
	}
	return q.report(nowNs() - start), nil
}
