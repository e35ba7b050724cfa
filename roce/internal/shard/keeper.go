package shard

import (
	"sync"
	"sync/atomic"
	"time"
)

// keeper decides whether goroutines that poll receive, or a goroutine of the shard because nobody
// polls. Config.Polling only says where it begins.
//
//   - While an application polls, a timer checks now and then that this goes on. If not, the
//     goroutine takes over, and the timer rests.
//   - While the goroutine is at work, an application that polls again and again, without a wait,
//     asks it to give way. With Config.Polling the first poll does.
//
// So an application that polls has the latency of polling, one that waits costs nothing while
// nothing comes, and one that does something else for a while does not look dead to its peers.
type keeper struct {
	background atomic.Bool   // the goroutine is at work; written with the lock of the shard held
	wanted     atomic.Bool   // it is to give way
	polls      atomic.Uint32 // that received, so far
	postCalls  atomic.Uint32 // calls of a program in another language that posted, so far
	off        atomic.Bool   // for tests: it never takes over
	eager      atomic.Uint32 // polls while the goroutine was at work, since the last wait
	attention  attention     // of a program in another language
	put        putOff        // whether a thread of that program lacked a CPU; under mu
	outlasted  int           // ticks that a lease has outlasted; under mu

	mu      sync.Mutex // taken before the lock of the shard
	timer   *time.Timer
	over    bool // the shard is closed
	running sync.WaitGroup
}

// Background reports whether the goroutine of the shard receives.
func (s *Shard) Background() bool { return s.keeper.background.Load() }

// Polled reports whether nothing is received unless somebody polls.
func (s *Shard) Polled() bool { return s.mode != Driven && !s.Background() }

// keep begins.
func (s *Shard) keep() {
	if s.mode == EventDriven {
		s.takeOver()
		return
	}
	k := &s.keeper
	k.mu.Lock()
	k.timer = time.AfterFunc(patience, s.check)
	k.mu.Unlock()
}

// takeOver has the goroutine of the shard receive.
func (s *Shard) takeOver() {
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	s.takeOverLocked(false, false)
}

// takeOverLocked is takeOver for callers that hold the mutex of the keeper. lapsed says that the
// seat was lent and nobody sat in it, which is a mistake if packets wait; idle is for lease.end.
func (s *Shard) takeOverLocked(lapsed, idle bool) {
	k := &s.keeper
	if k.over || k.off.Load() || s.Background() {
		return
	}
	s.mu.Lock()
	k.wanted.Store(false)
	k.eager.Store(0)
	k.attention.begin()
	k.background.Store(true)
	s.lease.end(idle)
	s.mu.Unlock()
	s.revoke()
	k.running.Add(1)
	go func() {
		defer k.running.Done()
		s.machine.Resumed()
		s.loop(lapsed)
	}()
}

// check runs when the timer fires. It hands receiving to the goroutine if nobody else receives.
func (s *Shard) check() {
	s.machine.Resumed()
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over || s.Background() {
		return
	}
	thread := int(s.poller.thread.Load())
	s.seatMu.Lock()
	tick, mistake, by := s.seat.fired(k.polls.Load()), s.Lent(), s.seat.sleeper()
	if by != nil {
		thread, mistake = by.Thread(), tick == tickTakeOver && !by.Idle()
	}
	s.seatMu.Unlock()
	off := s.forThreads() && k.put.lacked(s, thread) && tick == tickTakeOver && s.machine.ThreadReady(thread)
	switch {
	case by != nil:
		tick = k.outlasts(tick, off && mistake)
	case off && s.foreign.Load():
		tick = tickAgain
		s.standBy()
	}
	switch tick {
	case tickAgain:
		s.mu.Lock()
		s.forgetSent()
		s.mu.Unlock()
		k.timer.Reset(s.patience())
	case tickTakeOver:
		s.takeOverLocked(mistake, by != nil && !mistake)
	}
}

// patience returns how long, up to twice that, nobody may receive before the keeper takes over.
func (s *Shard) patience() time.Duration {
	if s.Lent() {
		return leasePeriod
	}
	return patience
}

// polledIdle notes a poll while the goroutine is at work, and may ask the goroutine to give way.
func (s *Shard) polledIdle() {
	k := &s.keeper
	if s.mode == Driven || s.mode == EventDriven && k.eager.Add(1) < eagerPolls {
		return
	}
	if k.wanted.CompareAndSwap(false, true) {
		s.link.Wake()
	}
}

// giveUp ends the goroutine's work: from here on an application polls or receives in a lent seat,
// or the shard is closed. The caller holds rxMu.
func (s *Shard) giveUp() {
	k := &s.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	s.mu.Lock()
	if s.posts.waiting() && !s.shut {
		s.Flush(s.link.Now()) // nobody would send it later
	}
	heir := s.lendsTo
	s.lendsTo = nil
	s.seatMu.Lock()
	if heir != nil && (k.over || s.Closed()) {
		heir.forget(s)
		heir = nil
	} else if heir != nil {
		s.lease.begin()
	}
	s.seat.lend(heir, k.polls.Load())
	s.heir.Store(heir)
	s.seatMu.Unlock()
	k.background.Store(false)
	s.mu.Unlock()
	if k.over {
		return
	}
	if heir.ofThread() {
		k.outlasted = 0
		k.put.lacked(s, heir.sleeper.Thread())
	} else if s.foreign.Load() && !k.off.Load() {
		s.standby.given.Add(1)
		s.standBy()
	}
	if k.timer == nil {
		k.timer = time.AfterFunc(s.patience(), s.check)
	} else {
		k.timer.Reset(s.patience())
	}
}

// stop ends the keeper, and returns when its goroutines have ended.
func (k *keeper) stop() {
	k.mu.Lock()
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.running.Wait()
}
