package verbs

import (
	"context"
	"sync"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
)

// CompletionChannel delivers the events of one or more completion queues (ibv_comp_channel).
type CompletionChannel struct {
	d    *Device
	mu   sync.Mutex
	cqs  []*CQ
	sig  *shard.Signal
	dead bool
}

// CreateCompletionChannel makes a channel that completion queues can report to.
func (d *Device) CreateCompletionChannel() (*CompletionChannel, error) {
	if d.isClosed() {
		return nil, d.closedErr()
	}
	return &CompletionChannel{d: d, sig: shard.NewSignal()}, nil
}

// push queues the event of a completion queue, once until it is taken. The lock of a shard is held.
// The queue may just have been closed if another shard completes in it.
func (c *CompletionChannel) push(cq *CQ) {
	c.mu.Lock()
	if !cq.queued && !c.dead && !cq.dead.Load() {
		cq.queued = true
		c.cqs = append(c.cqs, cq)
	}
	c.mu.Unlock()
	c.sig.Set()
}

// forget removes a closed queue.
func (c *CompletionChannel) forget(cq *CQ) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, q := range c.cqs {
		if q == cq {
			c.cqs = append(c.cqs[:i], c.cqs[i+1:]...)
			break
		}
	}
	cq.queued = false
}

func (c *CompletionChannel) pop() (cq *CQ, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		c.sig.Set() // for the next waiter
		return nil, true
	}
	if len(c.cqs) == 0 {
		return nil, false
	}
	cq = c.cqs[0]
	cq.queued = false
	c.cqs = append(c.cqs[:0], c.cqs[1:]...)
	if len(c.cqs) > 0 {
		c.sig.Set()
	}
	return cq, false
}

// Get waits for the next completion queue with an event that [CQ.RequestNotify] asked for, and
// returns the queue. Events need no acknowledgement.
func (c *CompletionChannel) Get(ctx context.Context) (*CQ, error) {
	if c.d.unmade() {
		return nil, access.ErrZero
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		cq, dead := c.pop()
		switch {
		case dead:
			return nil, ErrClosed
		case cq != nil:
			return cq, nil
		}
		if err := c.d.waitFor(ctx, c.sig, tries); err != nil {
			if c.d.s.Barrier() {
				if cq, _ := c.pop(); cq != nil {
					return cq, nil
				}
			}
			return nil, err
		}
	}
}

// Close ends the channel (ibv_destroy_comp_channel); calls of Get return ErrClosed. Its completion
// queues remain, without events.
func (c *CompletionChannel) Close() error {
	c.mu.Lock()
	c.dead = true
	c.cqs = nil
	c.mu.Unlock()
	c.sig.Set()
	return nil
}
