package verbs

import (
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
	access.QP = func(qp any) *transport.QP { return qp.(*QP).t }
	access.ClaimQP = func(qp any, established func()) bool {
		q := qp.(*QP)
		if q.established != nil {
			return false
		}
		q.established = established
		return true
	}
	access.ReleaseQP = func(qp any) { qp.(*QP).established = nil }
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
	return qp.t.Modify(now, a.toEngine(), mask)
}

// cqWaiter is the waiting side of a queue.
type cqWaiter struct{ cq *CQ }

func (w cqWaiter) Signal() shard.Signal { return w.cq.notify }

func (w cqWaiter) Enter() {
	w.cq.waiters.Add(1)
	if w.cq.d.s.Mode() != shard.Polling {
		w.cq.arm(false)
	}
}

func (w cqWaiter) Len() int {
	w.cq.pollMu.Lock()
	defer w.cq.pollMu.Unlock()
	return w.cq.t.Len()
}

func (w cqWaiter) Leave() { w.cq.waiters.Add(-1) }

// clear deallocates the domain, and the memory that is registered in it.
func (pd *PD) clear() error {
	return pd.d.do(func(int64) error {
		err := pd.t.Dealloc()
		if errors.Is(err, ErrBusy) {
			pd.t.Clear()
			err = pd.t.Dealloc()
		}
		return err
	})
}
