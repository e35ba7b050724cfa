package raftroce

import (
	"context"
	"fmt"
	"sync"
)

// place returns where a request of n bytes is in a ring, and where the next one begins. Writer and
// reader both count by it.
func place(size, at, n int) (from, next int) {
	if at+n > size {
		at = 0
	}
	return at, at + n
}

// ring is the writer's account of a ring: what of it is in use.
type ring struct {
	mu    sync.Mutex
	freed chan struct{} // has a value when space came free
	size  int
	at    int
	used  int
	spans []int // of the requests that are not answered, oldest first, with what was skipped before them
}

func newRing(size int) *ring { return &ring{size: size, freed: make(chan struct{}, 1)} }

// take waits for room for n bytes and returns where it is.
func (r *ring) take(ctx context.Context, n int) (from int, err error) {
	if n > r.size {
		return 0,
			fmt.Errorf("raftroce: a request of %d bytes; the ring of the peer has %d (Config.RingBytes)", n, r.size)
	}
	for {
		r.mu.Lock()
		from, next := place(r.size, r.at, n)
		span := n
		if from < r.at { // what is left at the end stays empty
			span += r.size - r.at
		}
		if r.used == 0 {
			span = n // nobody is in the way, wherever it is
		}
		if r.used+span <= r.size {
			r.at, r.used, r.spans = next, r.used+span, append(r.spans, span)
			r.mu.Unlock()
			return from, nil
		}
		r.mu.Unlock()
		select {
		case <-r.freed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// give gives the space of the oldest request back.
func (r *ring) give() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= r.spans[0]
	r.spans = r.spans[1:]
	select {
	case r.freed <- struct{}{}:
	default:
	}
}
