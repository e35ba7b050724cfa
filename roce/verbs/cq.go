package verbs

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// CQ is a completion queue (ibv_cq).
type CQ struct {
	d  *Device
	s  *shard.Shard // its engine has t
	t  *transport.CQ
	ch *CompletionChannel

	// feeders are the other shards with queue pairs that complete here; nil if there are none.
	feeders atomic.Pointer[[]*shard.Shard]

	// pollMu serializes the consumers of the engine's ring.
	pollMu sync.Mutex
	dead   atomic.Bool

	empty   atomic.Uint32 // polls that found nothing
	notify  *shard.Signal
	waiters atomic.Int32
	// appArmed is set by RequestNotify and cleared by the event it asked for.
	appArmed atomic.Bool
	told     atomic.Uint64 // how many completions there had been at the last call of onEvent
	tell     bool          // CQOptions.EventIfWaiting

	// channel bookkeeping, under ch.mu
	queued bool

	// onEvent is called with eventMu held, and never once the queue is dead.
	onEvent  func(*CQ)
	eventMu  sync.Mutex
	calls    func()                       // callOnEvent
	sleeper  atomic.Pointer[shard.Signal] // of the thread that OnEvent wakes; nil: unknown
	memory   []byte                       // of a ring, until Close; under pollMu
	userData any
}

// CQOptions has the options of [Device.CreateCQ].
type CQOptions struct {
	// Channel receives the events that [CQ.RequestNotify] asked for; may be nil.
	Channel *CompletionChannel

	// OnEvent is called for each such event instead, for programs with their own way to wait. The
	// call comes from the goroutine or thread that brought the completion or, with EventIfWaiting,
	// from RequestNotify, and the lock of a shard may be held. So it must not call a method of this
	// package other than [CQ.UserData], or wait; typically it writes to an eventfd. It is called at
	// most once for each RequestNotify, and never after Close has returned.
	OnEvent func(*CQ)

	// EventIfWaiting makes RequestNotify(false) call OnEvent at once if completions are waiting
	// that came after the last call. The specification has no such event, and asks for a poll after
	// RequestNotify; but adapters raise it, and some programs rely on it.
	EventIfWaiting bool

	// UserData is for the application: CQ.UserData returns it (cq_context).
	UserData any

	// Vector is the completion vector, from 0 to [Device.CompletionVectors] - 1 (comp_vector).
	// Queue pairs that send to the queue live on the shard of that vector; they share no lock and
	// no goroutine with those of other shards. Queue pairs of other vectors may use the queue, and
	// a shared receive queue, too. From then on each completion, or receive, takes an extra lock,
	// and waiting on the queue waits for all shards that use it.
	Vector int
}

// CreateCQ makes a completion queue for at least n completions (ibv_create_cq). nil means vector 0
// and no events.
func (d *Device) CreateCQ(n int, o *CQOptions) (*CQ, error) { return d.createCQ(n, o, false) }

func (d *Device) createCQ(n int, o *CQOptions, ring bool) (*CQ, error) {
	const op = "create CQ"
	if o == nil {
		o = &CQOptions{}
	}
	switch {
	case d.unmade():
		return nil, access.ErrZero
	case o.Channel != nil && o.Channel.d != d:
		return nil, argError(op, "channel", "of another device")
	case o.Channel != nil && o.OnEvent != nil:
		return nil, argError(op, "OnEvent", "beside Channel: events go to one of them")
	case o.Vector < 0 || o.Vector >= d.CompletionVectors():
		return nil, argError(op, "Vector", fmt.Sprintf("%d, and the device has %d", o.Vector, d.CompletionVectors()))
	}
	s, err := d.shardOf(o.Vector)
	if err != nil {
		return nil, err
	}
	cq := &CQ{d: d, s: s, ch: o.Channel, onEvent: o.OnEvent, tell: o.EventIfWaiting, userData: o.UserData,
		notify: shard.NewSignal()}
	cq.calls = cq.callOnEvent
	if ring {
		if cq.memory, err = mapRing(n); err != nil {
			return nil, err
		}
		s.ServeForeign()
	}
	if err := cq.create(n); err != nil {
		unmapRing(cq.memory)
		return nil, err
	}
	return cq, nil
}

// create makes the engine's queue.
func (cq *CQ) create(n int) error {
	if err := cq.s.Lock(); err != nil {
		return err
	}
	defer cq.s.Unlock()
	var err error
	if cq.memory != nil {
		cq.t, err = cq.s.Engine().CreateRingCQ(n, cq.memory, cq)
	} else {
		cq.t, err = cq.s.Engine().CreateCQ(n, cq)
	}
	return own(err)
}

// UserData returns CQOptions.UserData.
func (cq *CQ) UserData() any { return cq.userData }

// Poll moves up to len(wcs) completions out of the queue and returns their number; 0 means that
// there are none now. If the queue is empty it receives packets, unless the device's goroutine
// does: see the package comment. A queue that was full when a completion came takes no more; Poll
// returns those it has, then [ErrCQOverflow]. If the device's link is broken, Poll returns the
// flushed completions, then ErrClosed with the reason.
func (cq *CQ) Poll(wcs []WC) (int, error) {
	if cq.t == nil {
		return 0, access.ErrZero
	}
	return cq.poll(wcs, shard.Always)
}

// poll is Poll; answers is for a polling device, see Shard.Poll.
func (cq *CQ) poll(wcs []WC, answers func() bool) (int, error) {
	if n := cq.take(wcs); n > 0 {
		return n, nil
	}
	if cq.dead.Load() || cq.s.Barrier() {
		return cq.lastLook(wcs, cq.s.ClosedErr())
	}
	if cq.t.Overflowed() {
		return cq.lastLook(wcs, ErrCQOverflow) // it may have overflowed since the first look
	}
	if others := cq.feeders.Load(); others != nil {
		return cq.pollAll(*others, wcs, answers)
	}
	if cq.appArmed.Load() && cq.s.LentTo(cq.sleeper.Load()) {
		return 0, nil // that thread is about to wait, and receives then for all its queues
	}
	if !cq.s.Polled() {
		cq.s.Poll(answers) // this also counts as polling
		// A caller that polls in a loop must not keep the processor from the goroutine it depends
		// on.
		if cq.empty.Add(1)%shard.PollYield == 0 {
			cq.s.Gosched()
		}
		return 0, nil
	}
	cq.s.Poll(answers)
	n := cq.take(wcs)
	if n == 0 {
		cq.s.GiveWay(1)
	}
	return n, nil
}

// pollAll is poll, after a first look at the queue, for a queue in which several shards complete.
func (cq *CQ) pollAll(others []*shard.Shard, wcs []WC, answers func() bool) (int, error) {
	polled := cq.s.Polled()
	cq.s.Poll(answers)
	for _, s := range others {
		polled = polled || s.Polled()
		s.Poll(answers)
	}
	n := cq.take(wcs)
	switch {
	case n > 0:
	case polled:
		cq.s.GiveWay(1)
	case cq.empty.Add(1)%shard.PollYield == 0:
		cq.s.Gosched()
	}
	return n, nil
}

// feed records that queue pairs of another shard complete here. The locks of both shards are held.
func (cq *CQ) feed(s *shard.Shard) {
	if s == cq.s {
		return
	}
	cq.t.Share()
	if cq.t.HasRing() {
		s.ServeForeign()
	}
	cq.pollMu.Lock()
	defer cq.pollMu.Unlock()
	var others []*shard.Shard
	if p := cq.feeders.Load(); p != nil {
		others = *p
	}
	if !slices.Contains(others, s) {
		others = append(slices.Clone(others), s)
		cq.feeders.Store(&others)
	}
}

// wait is Shard.Wait for all shards that may complete here.
func (cq *CQ) wait(ctx context.Context, tries int) error {
	if others := cq.feeders.Load(); others != nil {
		shard.Attend(*others)
		return cq.s.Wait(ctx, cq.notify.C(), tries)
	}
	return cq.s.WaitFor(ctx, cq.notify, tries)
}

// any reports whether there are completions. The lock of a shard is held.
func (cq *CQ) any() bool {
	cq.pollMu.Lock()
	defer cq.pollMu.Unlock()
	return cq.t.Len() > 0
}

// take is Poll without receiving.
func (cq *CQ) take(wcs []WC) int {
	cq.pollMu.Lock()
	n := cq.t.Poll(engineWCs(wcs))
	cq.pollMu.Unlock()
	return n
}

// arm asks the engine for an event at the next completion.
func (cq *CQ) arm(solicitedOnly bool) {
	cq.pollMu.Lock()
	cq.t.Arm(solicitedOnly)
	cq.pollMu.Unlock()
}

// Wait is Poll, but waits for at least one completion. It returns ErrClosed, ErrCQOverflow, or the
// error of the context, with 0 completions. If the context is over already it takes no completion;
// Poll still does.
func (cq *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	switch {
	case cq.t == nil:
		return 0, access.ErrZero
	case len(wcs) == 0:
		return 0, argError("wait", "wcs", "has no room")
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if cq.s.Mode() == shard.Polling {
		return cq.waitPolling(ctx, wcs)
	}
	cq.s.Turn(nil)
	if n := cq.take(wcs); n > 0 {
		return n, nil
	}
	cq.waiters.Add(1)
	defer cq.leave()
	for tries := 0; ; tries++ {
		cq.arm(false)
		if n, err := cq.lookBeforeWait(wcs); n > 0 || err != nil {
			return n, err
		}
		if err := cq.wait(ctx, tries); err != nil {
			// Completions win over a context that ended at the same time.
			cq.s.Barrier()
			return cq.lastLook(wcs, err)
		}
	}
}

// lookBeforeWait is Poll for a caller that will wait if there is nothing.
func (cq *CQ) lookBeforeWait(wcs []WC) (int, error) {
	if cq.s.Polled() && !cq.s.Lent() || cq.feeders.Load() != nil || cq.s.Mode() != shard.EventDriven {
		return cq.poll(wcs, shard.Always)
	}
	if n := cq.take(wcs); n > 0 {
		return n, nil
	}
	if cq.dead.Load() || cq.s.Barrier() {
		return cq.lastLook(wcs, cq.s.ClosedErr())
	}
	if cq.t.Overflowed() {
		return cq.lastLook(wcs, ErrCQOverflow) // it may have overflowed since the first look
	}
	cq.s.SendBeforeWait()
	return 0, nil
}

// waitPolling is Wait on a polling device.
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

// lastLook returns completions, or err if there are none.
func (cq *CQ) lastLook(wcs []WC, err error) (int, error) {
	if n := cq.take(wcs); n > 0 {
		return n, nil
	}
	return 0, err
}

// leave ends a Wait. An event wakes one waiter; each waiter wakes the next when it leaves, and that
// one arms the queue again.
func (cq *CQ) leave() {
	if cq.waiters.Add(-1) > 0 {
		cq.notify.Set()
	}
}

// RequestNotify asks for one event at the next completion, or, with solicitedOnly, at the next one
// that is solicited or failed (ibv_req_notify_cq). Poll once more after the call: completions that
// were already in the queue raise no event, except with CQOptions.EventIfWaiting.
func (cq *CQ) RequestNotify(solicitedOnly bool) error {
	switch {
	case cq.s == nil:
		return access.ErrZero
	case cq.dead.Load() || cq.s.Closed():
		return cq.s.ClosedErr()
	}
	if cq.ch == nil && cq.onEvent == nil {
		return ErrNoChannel
	}
	cq.appArmed.Store(true)
	cq.arm(solicitedOnly)
	if cq.onEvent != nil {
		if cq.tell && !solicitedOnly {
			cq.tellWaiting()
		}
		cq.unattended()
	}
	return nil
}

// tellWaiting raises the requested event if completions are waiting that no event has announced. A
// completion that comes meanwhile raises it itself; appArmed decides which of the two does.
func (cq *CQ) tellWaiting() {
	cq.pollMu.Lock()
	pushed, n := cq.t.Waiting()
	cq.pollMu.Unlock()
	if n > 0 && pushed != cq.told.Load() && cq.appArmed.Swap(false) {
		cq.told.Store(pushed)
		cq.callOnEvent()
	}
}

// completionEvent handles a completion made by s. The lock of s is held.
func (cq *CQ) completionEvent(s *shard.Shard) {
	if (cq.ch != nil || cq.onEvent != nil) && cq.appArmed.Swap(false) {
		if cq.ch != nil {
			s.Woke(cq.waitsBy(s, cq.ch.sig))
			cq.ch.push(cq)
		} else {
			s.Woke(cq.waitsBy(s, cq.sleeper.Load()))
			cq.told.Store(cq.t.Told())
			s.Unlocked(cq.calls)
		}
	}
	if cq.waiters.Load() > 0 {
		s.Woke(cq.waitsBy(s, cq.notify))
		cq.notify.Set()
	}
}

// waitsBy returns the signal if the goroutine that waits for it may receive on s, which it may if
// nothing else sets the signal; nil otherwise.
func (cq *CQ) waitsBy(s *shard.Shard, sig *shard.Signal) *shard.Signal {
	if s != cq.s || cq.feeders.Load() != nil {
		return nil
	}
	return sig
}

// callOnEvent calls the application, unless the queue is closed.
func (cq *CQ) callOnEvent() {
	cq.eventMu.Lock()
	defer cq.eventMu.Unlock()
	if !cq.dead.Load() {
		cq.onEvent(cq)
	}
}

// Resize changes the capacity to at least n completions. It fails if more are waiting. A queue with
// a ring gets a new one: see cqCore.Ring.
func (cq *CQ) Resize(n int) error {
	var other []byte // the memory that is not the ring in the end
	err := doOn(cq.s, func(int64) (err error) {
		if cq.dead.Load() {
			return ErrClosed
		}
		cq.pollMu.Lock()
		defer cq.pollMu.Unlock()
		if cq.memory == nil {
			return cq.t.Resize(n)
		}
		if other, err = mapRing(n); err != nil {
			return err
		}
		if err = cq.t.ResizeRing(n, other); err == nil {
			cq.memory, other = other, cq.memory
		}
		return err
	})
	unmapRing(other)
	return err
}

// Close ends the queue (ibv_destroy_cq). It fails with ErrBusy while queue pairs use it.
// Calls that wait on it return ErrClosed.
func (cq *CQ) Close() error {
	err := endOn(cq.s, "CQ", func() error {
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
	if err == nil && cq.t != nil {
		cq.gone()
	}
	return err
}

// gone releases what the queue held, once it or its device is closed.
func (cq *CQ) gone() {
	cq.eventMu.Lock()
	cq.dead.Store(true)
	cq.eventMu.Unlock()
	if cq.ch != nil {
		cq.ch.forget(cq)
	}
	cq.d.async.forget(func(e *Event) bool { return e.CQ == cq })
	cq.notify.Set()
	cq.s.LockAlways()
	cq.pollMu.Lock()
	m := cq.memory
	if cq.memory = nil; m != nil {
		cq.t.Detach() // the device may be about to close
	}
	cq.pollMu.Unlock()
	cq.s.Unlock()
	unmapRing(m)
}

// Vector returns the completion vector of the queue: CQOptions.Vector, or 0 if no slot was free for
// it.
func (cq *CQ) Vector() int {
	if cq.s == nil {
		return 0
	}
	return cq.d.vectorOf(cq.s)
}

// Device returns the device of the queue.
func (cq *CQ) Device() *Device { return cq.d }
