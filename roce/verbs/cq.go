package verbs

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/roce/internal/kind"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// CQ is a completion queue (ibv_cq).
type CQ struct {
	d  *Device
	t  *transport.CQ
	ch *CompletionChannel

	// pollMu makes the consumers of the engine's ring one.
	pollMu sync.Mutex
	dead   atomic.Bool

	empty   atomic.Uint32 // polls that found nothing
	notify  shard.Signal
	waiters atomic.Int32
	// appArmed is set by RequestNotify and cleared by the event it asked for.
	appArmed atomic.Bool

	// channel bookkeeping, under ch.mu
	queued bool
}

// CreateCQ makes a completion queue for at least n completions. ch may be nil.
func (d *Device) CreateCQ(n int, ch *CompletionChannel) (*CQ, error) {
	if ch != nil && ch.d != d {
		return nil, &ArgError{"create CQ", "channel", "of another device"}
	}
	cq := &CQ{d: d, ch: ch, notify: shard.NewSignal()}
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.unlock()
	t, err := d.s.Engine().CreateCQ(n, cq)
	if err != nil {
		return nil, own(err)
	}
	cq.t = t
	return cq, nil
}

// Poll moves up to len(wcs) completions out of the queue and returns how many; 0 means that
// there are none now. When the queue is empty it receives packets, unless the goroutine of the
// device does: see the package comment. A queue that was full when a completion came takes no
// more; when it has returned those it has, it returns [ErrCQOverflow].
func (cq *CQ) Poll(wcs []WC) (int, error) {
	if cq.t == nil {
		return 0, kind.Zero
	}
	return cq.poll(wcs, shard.Always)
}

// poll is Poll; answers is for a device that polls, see Shard.Poll.
func (cq *CQ) poll(wcs []WC, answers func() bool) (int, error) {
	if n := cq.take(wcs); n > 0 {
		return n, nil
	}
	if cq.dead.Load() || cq.d.isClosed() {
		return 0, cq.d.closedErr()
	}
	if cq.t.Overflowed() {
		return cq.lastLook(wcs, ErrCQOverflow) // it may have overflowed since the first look
	}
	if !cq.d.s.Polled() {
		cq.d.s.Poll(answers) // which notes that somebody polls
		// A caller that polls in a loop must not keep the processor from the
		// goroutine that it waits for.
		if cq.empty.Add(1)%shard.PollYield == 0 {
			runtime.Gosched()
		}
		return 0, nil
	}
	cq.d.s.Poll(answers)
	n := cq.take(wcs)
	if n == 0 {
		cq.d.s.GiveWay()
	}
	return n, nil
}

// any reports whether there are completions. The lock of the device is held.
func (cq *CQ) any() bool {
	cq.pollMu.Lock()
	defer cq.pollMu.Unlock()
	return cq.t.Len() > 0
}

// take is Poll without a look at the link.
func (cq *CQ) take(wcs []WC) int {
	cq.pollMu.Lock()
	n := cq.t.Poll(engineWCs(wcs))
	cq.pollMu.Unlock()
	return n
}

// arm asks the engine for an event, and looks again for completions that came
// in between.
func (cq *CQ) arm(solicitedOnly bool) {
	cq.pollMu.Lock()
	cq.t.Arm(solicitedOnly)
	cq.pollMu.Unlock()
}

// Wait is Poll that waits until there is at least one completion. It returns
// ErrClosed, ErrCQOverflow, or the error of the context, with 0 completions. With
// a context that is over already it takes no completion; Poll still does.
func (cq *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	switch {
	case cq.t == nil:
		return 0, kind.Zero
	case len(wcs) == 0:
		return 0, &ArgError{"wait", "wcs", "has no room"}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if cq.d.s.Mode() == shard.Polling {
		return cq.waitPolling(ctx, wcs)
	}
	cq.d.turn()
	if n, err := cq.Poll(wcs); n > 0 || err != nil {
		return n, err
	}
	cq.waiters.Add(1)
	defer cq.leave()
	for tries := 0; ; tries++ {
		cq.arm(false)
		if n, err := cq.Poll(wcs); n > 0 || err != nil {
			return n, err
		}
		if err := cq.d.wait(ctx, cq.notify, tries); err != nil {
			// Completions win over a context that ended at the same time.
			return cq.lastLook(wcs, err)
		}
	}
}

// waitPolling is Wait of a device that polls.
func (cq *CQ) waitPolling(ctx context.Context, wcs []WC) (int, error) {
	answers := cq.any
	for tries := 0; ; tries++ {
		if n, err := cq.poll(wcs, answers); n > 0 || err != nil {
			return n, err
		}
		if tries%shard.PollYield == 0 {
			if err := ctx.Err(); err != nil {
				return cq.lastLook(wcs, err)
			}
		}
	}
}

// lastLook returns completions, or the error if there are none.
func (cq *CQ) lastLook(wcs []WC, err error) (int, error) {
	if n := cq.take(wcs); n > 0 {
		return n, nil
	}
	return 0, err
}

// leave ends a Wait. An event wakes one waiter; whoever leaves wakes the next, which arms
// the queue again.
func (cq *CQ) leave() {
	if cq.waiters.Add(-1) > 0 {
		cq.notify.Set()
	}
}

// RequestNotify asks for one event on the completion channel at the next
// completion, or, with solicitedOnly, at the next one that is solicited or
// failed (ibv_req_notify_cq). Poll once more after the call: completions that
// were already in the queue make no event.
func (cq *CQ) RequestNotify(solicitedOnly bool) error {
	if cq.dead.Load() || cq.d.isClosed() {
		return cq.d.closedErr()
	}
	if cq.ch == nil {
		return ErrNoChannel
	}
	cq.appArmed.Store(true)
	cq.arm(solicitedOnly)
	return nil
}

// completionEvent is called with the lock of the device held.
func (cq *CQ) completionEvent() {
	if cq.ch != nil && cq.appArmed.Swap(false) {
		cq.d.s.Woke()
		cq.ch.push(cq)
	}
	if cq.waiters.Load() > 0 {
		cq.d.s.Woke()
		cq.notify.Set()
	}
}

// Resize changes the capacity to at least n completions. It fails if more are
// waiting.
func (cq *CQ) Resize(n int) error {
	return cq.d.do(func(int64) error {
		if cq.dead.Load() {
			return ErrClosed
		}
		cq.pollMu.Lock()
		defer cq.pollMu.Unlock()
		return cq.t.Resize(n)
	})
}

// Close ends the queue (ibv_destroy_cq). It fails with ErrBusy while queue pairs use it.
// Calls that wait on it return ErrClosed.
func (cq *CQ) Close() error {
	err := cq.d.end("CQ", func() error {
		if cq.dead.Load() {
			return nil
		}
		cq.pollMu.Lock()
		defer cq.pollMu.Unlock()
		if err := cq.t.Destroy(); err != nil {
			return err
		}
		cq.dead.Store(true)
		return nil
	})
	if err == nil {
		if cq.ch != nil {
			cq.ch.forget(cq)
		}
		if cq.t != nil {
			cq.notify.Set()
		}
	}
	return err
}

// Device returns the device of the queue.
func (cq *CQ) Device() *Device { return cq.d }
