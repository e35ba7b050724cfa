package perftest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/verbs"
)

// Work request IDs say which QP and which message a completion is of, also
// when it failed and says nothing else.
const (
	idRecv   uint64 = 1 << 63
	idQPBits        = 40
	idSeq    uint64 = 1<<idQPBits - 1
)

// sendID is the ID of the message of QP index qp that is the seq-th, from 1.
func sendID(qp int, seq uint64) uint64 { return uint64(qp)<<idQPBits | seq&idSeq }

// recvID is the ID of receives of QP index qp.
func recvID(qp int) uint64 { return idRecv | uint64(qp)<<idQPBits }

// qpOf returns the QP index in an ID.
func qpOf(id uint64) int { return int(id &^ idRecv >> idQPBits) }

// stallTimeout is how long a test waits with nothing happening before it gives
// up, as the originals do. Over unreliable transports that is a lost message, and over any
// a peer that was killed, or is done with fewer messages.
const stallTimeout = 120 * time.Second

// stalled returns the error that ends a test in which nothing happens any more.
func (o *Options) stalled() error {
	why := "messages may have been lost (fewer in flight: -t, -r)"
	if o.Transport == ib.RC {
		why = "the peer has ended, or runs the test with other options (-n, -D, -s, -b)"
	}
	return fmt.Errorf("nothing happened for %v: %s", stallTimeout, why)
}

// errTimeUp ends a wait when the time of -D is over. It is no failure.
var errTimeUp = errors.New("time is up")

// runner is one measurement: one message size.
type runner struct {
	s     *session
	ctx   context.Context
	stop  context.CancelCauseFunc
	watch stopwatch
	wcs   [pollBatch]verbs.WC
	moved atomic.Uint64 // completions, for the watchdog
	dog   *time.Timer
	timer *time.Timer // ends waits when the time of -D is over
}

func (s *session) newRunner(ctx context.Context) *runner {
	r := &runner{s: s, watch: s.o.stopwatch()}
	r.ctx, r.stop = context.WithCancelCause(ctx)
	var last uint64
	r.dog = time.AfterFunc(stallTimeout, func() {
		if now := r.moved.Load(); now != last {
			last = now
			r.dog.Reset(stallTimeout)
			return
		}
		r.stop(s.o.stalled())
	})
	return r
}

// close ends the measurement.
func (r *runner) close() {
	r.dog.Stop()
	if r.timer != nil {
		r.timer.Stop()
	}
	r.stop(nil)
}

// begin starts the time of a test with -D, once.
func (r *runner) begin(now int64) {
	if r.watch.total == 0 || r.watch.begun {
		return
	}
	r.watch.begin(now)
	r.timer = time.AfterFunc(time.Duration(r.watch.total), func() { r.stop(errTimeUp) })
}

// completions is the loop of a bandwidth test: it posts what fits, if there is something to post
// with, and hands over completions as they come, until the test has finished or the time
// of -D is up.
func (r *runner) completions(finished func() bool, fill func() error,
	handle func(wcs []verbs.WC, now int64) error) error {
	for !finished() {
		if fill != nil {
			if err := fill(); err != nil {
				return err
			}
		}
		wcs, err := r.take(true)
		now := nowNs()
		if timeUp(err) || err == nil && r.watch.over(now) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := handle(wcs, now); err != nil {
			return err
		}
	}
	return nil
}

// timeUp reports whether err only says that the time of -D is over.
func timeUp(err error) bool { return errors.Is(err, errTimeUp) }

// take returns the completions there are, at most a batch; with wait it
// returns one at least. A completion that failed is an error.
func (r *runner) take(wait bool) ([]verbs.WC, error) {
	cq := r.s.res.cq
	n, err := cq.Poll(r.wcs[:])
	for i := 0; wait && n == 0 && err == nil && i < tool.Spins && !r.s.o.Events; i++ {
		runtime.Gosched()
		n, err = cq.Poll(r.wcs[:])
	}
	if wait && n == 0 && err == nil {
		n, err = cq.Wait(r.ctx, r.wcs[:])
	}
	if err != nil {
		if r.ctx.Err() != nil {
			return nil, context.Cause(r.ctx)
		}
		return nil, fmt.Errorf("poll the completion queue: %w", err)
	}
	if n > 0 {
		r.moved.Add(uint64(n))
	}
	for i := range r.wcs[:n] {
		if wc := &r.wcs[i]; wc.Status != verbs.WCSuccess {
			return nil, r.s.failed(wc)
		}
	}
	return r.wcs[:n], nil
}

// completionError is a work request that failed.
type completionError struct {
	side string // "client" or "server"
	wc   verbs.WC
}

func (e *completionError) Error() string {
	what := fmt.Sprintf("message %d", e.wc.ID&idSeq)
	if e.wc.ID&idRecv != 0 {
		what = "a receive"
	}
	s := fmt.Sprintf("completion with error at %s: %v (%d), vendor error %#x, of %s on QP %v",
		e.side, e.wc.Status, e.wc.Status, e.wc.VendorErr, what, e.wc.QPN)
	switch e.wc.Status {
	case verbs.WCRetryExcErr:
		s += "; the peer does not answer: has it ended, can UDP port 4791 reach it, does its MTU fit?"
	case verbs.WCRNRRetryExcErr:
		s += "; the peer posts no receives"
	}
	return s
}

func (e *completionError) Unwrap() error { return verbs.WCError(&e.wc) }

func (s *session) failed(wc *verbs.WC) error {
	return &completionError{s.side(), *wc}
}
