package rsocket

import (
	"sync"
	"sync/atomic"
)

// lock is a mutex that may be held while its holder waits for the network. Its waiters wait on
// channels, so that a simulation sees them (see sim.Test), and get it in the order of their calls.
// The zero lock is free.
type lock struct {
	state atomic.Int32
	mu    sync.Mutex
	queue []chan struct{}
}

// The states of a lock.
const (
	lockFree int32 = iota
	lockHeld
	lockWanted // held, and others may be queued
)

func (l *lock) Lock() {
	if l.state.CompareAndSwap(lockFree, lockHeld) {
		return
	}
	l.mu.Lock()
	if l.state.Swap(lockWanted) == lockFree {
		l.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	l.queue = append(l.queue, mine)
	l.mu.Unlock()
	<-mine
}

// TryLock takes the lock if it is free.
func (l *lock) TryLock() bool { return l.state.CompareAndSwap(lockFree, lockHeld) }

func (l *lock) Unlock() {
	if l.state.CompareAndSwap(lockHeld, lockFree) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.state.Store(lockFree)
		return
	}
	close(l.queue[0]) // passes the lock on, still held
	l.queue = append(l.queue[:0], l.queue[1:]...)
}
