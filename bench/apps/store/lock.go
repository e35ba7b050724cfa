package store

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// lock is a sync.RWMutex that may be held while its holder waits for the network: a goroutine that
// waits for it waits in a channel, which simulated time knows of, as it does not of a mutex.
type lock struct{ s *semaphore.Weighted }

const exclusive = 1 << 30

func newLock() lock { return lock{semaphore.NewWeighted(exclusive)} }

func (l lock) acquire(n int64) {
	if err := l.s.Acquire(context.Background(), n); err != nil {
		panic(err) // the context does not end
	}
}

func (l lock) Lock()    { l.acquire(exclusive) }
func (l lock) Unlock()  { l.s.Release(exclusive) }
func (l lock) RLock()   { l.acquire(1) }
func (l lock) RUnlock() { l.s.Release(1) }
