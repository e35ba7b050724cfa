package verbs

import (
	"context"
	"errors"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

func init() {
	access.Shard = func(device any) *shard.Shard {
		if d := device.(*Device); d != nil {
			return d.s
		}
		return nil
	}
	access.ShardOf = func(qp any) *shard.Shard { return qp.(*QP).s }
	access.Wait = func(device any, ctx context.Context, notify <-chan struct{}, tries int) error {
		return device.(*Device).wait(ctx, notify, tries)
	}
	access.NextVector = func(device any) int { return device.(*Device).nextVector() }
	access.QP = func(qp any) *transport.QP { return qp.(*QP).t }
	access.ClaimQP = func(qp any, established, unanswered func()) bool {
		q := qp.(*QP)
		if q.established != nil {
			return false
		}
		q.established, q.unanswered = established, unanswered
		return true
	}
	access.ReleaseQP = func(qp any) { qp.(*QP).established, qp.(*QP).unanswered = nil, nil }
	access.ConnectQP = func(qp any, now int64, remote, attr any) error {
		return qp.(*QP).connect(now, remote.(*RemoteInfo), attr.(*ConnAttr))
	}
	access.CQ = func(cq any) access.Waiter { return cqWaiter{cq.(*CQ)} }
	access.ClearPD = func(pd any) error { return pd.(*PD).clear() }
	access.Own = own
}

// connect takes a queue pair from INIT to RTS. The lock is held.
func (qp *QP) connect(now int64, remote *RemoteInfo, c *ConnAttr) error {
	a, mask, err := qp.RTRAttr(*remote, *c)
	if err != nil {
		return err
	}
	a.Access = c.Access
	if err := qp.t.Modify(now, a.toEngine(), mask|AttrAccess); err != nil {
		return err
	}
	a, mask = qp.RTSAttr(*c)
	qp.t.WatchSilence()
	return qp.t.Modify(now, a.toEngine(), mask)
}

// cqWaiter is the waiting side of a queue.
type cqWaiter struct{ cq *CQ }

func (w cqWaiter) Shard() *shard.Shard { return w.cq.s }

func (w cqWaiter) Signal() shard.Signal { return w.cq.notify }

func (w cqWaiter) Enter() {
	w.cq.waiters.Add(1)
	if w.cq.s.Mode() != shard.Polling {
		w.cq.arm(false)
	}
}

func (w cqWaiter) Len() int {
	w.cq.pollMu.Lock()
	defer w.cq.pollMu.Unlock()
	return w.cq.t.Len()
}

func (w cqWaiter) Take(wcs any) int { return w.cq.take(*wcs.(*[]WC)) }

func (w cqWaiter) Look(wcs any) (int, error) { return w.cq.lookBeforeWait(*wcs.(*[]WC)) }

func (w cqWaiter) Leave() { w.cq.waiters.Add(-1) }

// clear deallocates the domain, and the memory that is registered in it.
func (pd *PD) clear() error {
	dealloc := func(int64) error { return pd.t.Dealloc() }
	err := pd.d.do(dealloc)
	if errors.Is(err, ErrBusy) {
		pd.t.Clear(pd.d.quiesce)
		err = pd.d.do(dealloc)
	}
	return err
}
