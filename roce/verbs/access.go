package verbs

import (
	"context"
	"errors"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/transport"
)

// Core is for the packages of this module that are built on this one: nothing else can do anything
// with it.
func (d *Device) Core() access.Device { return access.OfDevice((*deviceCore)(d)) }

// Core is what (*Device).Core is.
func (qp *QP) Core() access.QP[QPAttr] { return access.OfQP((*qpCore)(qp)) }

// Core is what (*Device).Core is.
func (cq *CQ) Core() access.CQ[WC] { return access.OfCQ((*cqCore)(cq)) }

// Core is what (*Device).Core is.
func (pd *PD) Core() access.PD { return access.OfPD(pd.clear) }

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

// qpCore is a QP as the packages above see it.
type qpCore QP

func (c *qpCore) Shard() *shard.Shard { return c.s }

func (c *qpCore) QP() *transport.QP { return c.t }

func (c *qpCore) Claim(established, unanswered func()) bool {
	if c.established != nil {
		return false
	}
	c.established, c.unanswered = established, unanswered
	return true
}

func (c *qpCore) Release() { c.established, c.unanswered = nil, nil }

func (c *qpCore) Modify(now int64, a *QPAttr, mask AttrMask) error {
	return c.t.Modify(now, a.toEngine(), mask)
}

// cqCore is the waiting side of a CQ.
type cqCore CQ

func (c *cqCore) Shard() *shard.Shard { return c.s }

func (c *cqCore) Signal() *shard.Signal { return c.notify }

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
