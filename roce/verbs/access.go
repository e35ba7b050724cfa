package verbs

import (
	"context"
	"errors"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// Core is for the packages of this repository that build on this one; it is of no use to others.
func (d *Device) Core() core.Of[*deviceCore] { return core.New((*deviceCore)(d)) }

// Core is like Device.Core.
func (qp *QP) Core() core.Of[*qpCore] { return core.New((*qpCore)(qp)) }

// Core is like Device.Core.
func (cq *CQ) Core() core.Of[*cqCore] { return core.New((*cqCore)(cq)) }

// Core is like Device.Core.
func (pd *PD) Core() core.Of[*pdCore] { return core.New((*pdCore)(pd)) }

// deviceCore is a Device as the packages above see it.
type deviceCore Device

func (c *deviceCore) Shard() *shard.Shard {
	if c == nil {
		return nil
	}
	return c.s
}

func (c *deviceCore) Wait(ctx context.Context, notify <-chan struct{}, tries int) error {
	return (*Device)(c).wait(ctx, notify, tries)
}

func (c *deviceCore) NextVector() int { return (*Device)(c).nextVector() }

// SpreadOver has connections to come take turns among the first vectors only.
func (c *deviceCore) SpreadOver(vectors int) { c.shards.most.Store(uint32(max(1, vectors))) }

func (c *deviceCore) Own(err error) error { return own(err) }

func (c *deviceCore) Keep(key any, make func() any) any {
	c.keptMu.Lock()
	defer c.keptMu.Unlock()
	v := c.kept[key]
	if v == nil {
		if c.kept == nil {
			c.kept = map[any]any{}
		}
		v = make()
		c.kept[key] = v
	}
	return v
}

func (c *deviceCore) End(reason error) { (*Device)(c).shut(reason) }

// OnAsyncEvent passes asynchronous events to f as they come, instead of to AsyncEvent. It first
// passes on those already queued, before it returns. nil ends that. Calls of f come one at a time,
// from the goroutine or thread that met the event, with the lock of a shard held. So f must not
// call a method of this package, or wait: it may note the event, or write to an eventfd. No event
// of an object comes after its Close has returned, and none at all after OnAsyncEvent(nil) has. f
// must bound the events it keeps: a peer can cause them.
func (c *deviceCore) OnAsyncEvent(f func(Event)) error {
	d := (*Device)(c)
	if d.unmade() {
		return access.ErrZero
	}
	d.async.handTo(f)
	return nil
}

// CreateRingCQ is CreateCQ for a queue whose completions lie in memory that a program in another
// language reads directly: see Ring.
func (c *deviceCore) CreateRingCQ(n int, o *CQOptions) (*CQ, error) {
	return (*Device)(c).createCQ(n, o, true)
}

// qpCore is a QP as the packages above see it.
type qpCore QP

// Shard returns the shard of the queue pair. Its lock is taken after that of the first shard.
func (c *qpCore) Shard() *shard.Shard { return c.s }

// QP returns the engine's queue pair.
func (c *qpCore) QP() *transport.QP { return c.t }

// Claim makes the caller responsible for moving the queue pair through its states. established is
// called with the lock of the first shard held, at or after the peer's first packet; unanswered is
// called in the same way if the peer does not answer. It returns false if the queue pair is claimed
// already. The lock of its shard is held.
func (c *qpCore) Claim(established, unanswered func()) bool {
	if c.established != nil {
		return false
	}
	c.established, c.unanswered = established, unanswered
	return true
}

// Release ends Claim. The lock of the queue pair's shard is held.
func (c *qpCore) Release() { c.established, c.unanswered = nil, nil }

// Modify is QP.Modify for a caller that holds the lock of the queue pair's shard; now is that
// shard's time.
func (c *qpCore) Modify(now int64, a *QPAttr, mask AttrMask) error {
	return c.t.Modify(now, a.toEngine(), mask)
}

// RTRAttr returns the attributes that ToRTR sets.
func (c *qpCore) RTRAttr(remote RemoteInfo, a *ConnAttr) (QPAttr, AttrMask, error) {
	return (*QP)(c).rtrAttr(remote, *a)
}

// RTSAttr returns the attributes that ToRTS sets.
func (c *qpCore) RTSAttr(a *ConnAttr) (QPAttr, AttrMask) { return (*QP)(c).rtsAttr(*a) }

// SendRoom returns how many more requests the send queue takes now: none before RTS, or once the
// device is closed. Only posts and changes of state shrink it.
func (c *qpCore) SendRoom() int {
	qp := (*QP)(c)
	if qp.lock() != nil {
		return 0
	}
	defer qp.s.Unlock()
	return qp.t.SendRoom()
}

// Ask has the peer acknowledge what was posted with access.SendPatient.
func (c *qpCore) Ask() { c.tell((*transport.QP).Ask) }

// Acknowledge acknowledges what the peer has posted so.
func (c *qpCore) Acknowledge() { c.tell((*transport.QP).Acknowledge) }

func (c *qpCore) tell(f func(*transport.QP)) {
	qp := (*QP)(c)
	if qp.lock() == nil {
		f(qp.t)
		qp.s.Flush(qp.s.Now())
		qp.s.Unlock()
	}
}

// cqCore is the waiting side of a CQ, and the ring of one that has it.
type cqCore CQ

func (c *cqCore) Shard() *shard.Shard { return c.s }

func (c *cqCore) Signal() *shard.Signal { return c.notify }

// WakesBy tells whom CQOptions.OnEvent wakes; nil is for somebody unknown.
func (c *cqCore) WakesBy(t core.Sleeper) {
	was := c.sleeper.Load()
	if sig := c.s.SleeperSignal(was, t); sig != was {
		c.sleeper.Store(sig)
	}
}

// Untell forgets that an event has told of the completions that wait, so that the next
// RequestNotify raises another, with CQOptions.EventIfWaiting.
func (c *cqCore) Untell() { c.told.Store(0) }

func (c *cqCore) Enter() {
	c.waiters.Add(1)
	if c.s.Mode() != shard.Polling {
		(*CQ)(c).arm(false)
	}
}

func (c *cqCore) Len() int {
	c.pollMu.Lock()
	defer c.pollMu.Unlock()
	return c.t.Len()
}

func (c *cqCore) Take(wcs []WC) int { return (*CQ)(c).take(wcs) }

func (c *cqCore) Look(wcs []WC) (int, error) { return (*CQ)(c).lookBeforeWait(wcs) }

func (c *cqCore) Leave() { c.waiters.Add(-1) }

// pdCore is a PD as the packages above see it.
type pdCore PD

// Clear deallocates the domain together with the memory registered in it.
func (c *pdCore) Clear() error {
	pd := (*PD)(c)
	dealloc := func(int64) error { return pd.t.Dealloc() }
	err := pd.d.do(dealloc)
	if errors.Is(err, ErrBusy) {
		pd.t.Clear(pd.d.quiesce)
		err = pd.d.do(dealloc)
	}
	return err
}
