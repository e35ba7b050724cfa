package shard

import (
	"math"
	"time"

	"github.com/goroce/goroce/transport"
)

// Never tells Poll that the application will not send next.
func Never() bool { return false }

// Always tells Poll that the application runs after every poll, and can see what was written to its
// memory.
func Always() bool { return true }

// progress receives packets, handles them, and sends what the scheduler allows. It runs a due timer
// only after everything that had come by then is handled. It reports whether there was anything to
// do; packets that the link again could not send do not count, since they can only wait.
// expectReply, called with the lock held, says whether the application is likely to send next. rxMu
// is held.
//
// This is the one loop that receives: the goroutine of a shard, polling and waiting goroutines, and
// the simulation call it.
func (s *Shard) progress(expectReply func() bool) (bool, error) {
	s.beginUpcalls()
	looked := false
	for gathered := 0; ; {
		n, err := s.recv(s.rx)
		if err != nil {
			return false, err
		}
		now := s.link.Now()
		timer := s.timersDue(now)
		quiet := s.posts.quiet()
		back := s.link.Returned()
		idle := n == 0 && gathered == 0 && !timer && !quiet && back.Quote == nil
		if idle && !s.link.Blocked() {
			s.makeUpcalls(nil)
			return false, nil
		}
		gathered += n
		s.received = gathered
		if n > 0 && s.foreign.Load() {
			s.answered = onlyAnswers(s.rx[:n]) && (s.answered || gathered == n)
		}
		s.mu.Lock()
		if s.shut {
			s.mu.Unlock()
			return false, nil
		}
		s.woke, s.up.handles = false, true
		s.handle(now, s.rx[:n])
		for ; back.Quote != nil; back = s.link.Returned() {
			if s.service != nil {
				s.service.Returned(now, back)
			}
		}
		if timer {
			s.tryTimers(now, n)
		}
		s.handOut()
		s.judgeLease(n)
		todo := s.ack.afterReceive(received{
			now: now, background: s.Background(), packets: n, gathered: gathered, timer: timer,
			lookOnce: s.horizon.set && !looked, onlyAcks: s.eng.OnlyAcks(), woke: s.woke,
			expectReply: expectReply,
		})
		switch todo {
		case receiveMore:
			looked = looked || n == 0
			s.up.handles = false
			s.mu.Unlock()
			continue
		case awaitReply:
			s.noteTimers()
		default:
			s.Flush(now)
		}
		up := s.takeUpcalls()
		s.mu.Unlock()
		s.makeUpcalls(up)
		return !idle || !s.link.Blocked(), nil
	}
}

// recv asks the link for packets, which the link may leave unverified.
func (s *Shard) recv(batch []transport.RxPacket) (int, error) {
	if s.unverified != nil {
		return s.unverified.RecvUnverified(batch)
	}
	return s.link.Recv(batch)
}

// judgeLease tells the lease that n packets were handled. rxMu and the lock are held.
func (s *Shard) judgeLease(n int) {
	if s.mode != EventDriven {
		return
	}
	s.lease.handled(n)
	s.leaseOver = s.lease.over
	if s.lendsTo == nil && s.lease.lends() && s.Background() && !s.keeper.off.Load() && s.mayReceive(s.lease.last) {
		s.lendsTo = s.lease.last
	}
}

// Woke notes that the packets that are being handled were waited for, by a goroutine in WaitFor;
// sig is nil for one that waits by other means. The lock is held.
func (s *Shard) Woke(sig *Signal) {
	s.woke = true
	s.posts.woken.Add(1)
	s.lease.woke(sig, s.waiting.Load() == 1)
}

// wokeSomeone is for progress: what came in was waited for. The lock is held.
func (s *Shard) wokeSomeone() bool { return s.woke }

// loop is the goroutine of a shard that nobody polls. It receives while there are packets, spins
// for a little, then blocks in the system call. lapsed says that a lease ended because nobody sat
// in the seat.
func (s *Shard) loop(lapsed bool) {
	s.machine.Lock(&s.rxMu)
	defer s.rxMu.Unlock()
	defer s.giveUp()
	s.forgetWatch()
	s.pace.lent = false
	s.pace.begin(s.link.Now())
	for !s.Closed() && !s.keeper.wanted.Load() {
		busy, err := s.progress(s.expectReply)
		if err != nil {
			s.fail(err)
			return
		}
		if lapsed && busy { // packets have waited
			s.mu.Lock()
			s.lease.mistake()
			s.mu.Unlock()
		}
		lapsed = false
		if s.lendsTo != nil {
			return
		}
		s.posts.runs()
		now := s.letRun(s.link.Now()) // the goroutines that packets woke run first
		if s.posts.ran() {
			s.SendPosted()
		}
		if s.ack.over(now, s.forThreads()) {
			s.endAckDelay()
		}
		if s.lookAgain(now, busy) {
			continue
		}
		s.endAckDelay()
		if err := s.block(now); err != nil {
			s.fail(err)
			return
		}
		s.pace.woke(s.link.Now())
	}
}

// block waits in the link until an event or the next timer.
func (s *Shard) block(now int64) error {
	s.mu.Lock()
	if s.up.wanted.Load() || len(s.up.marked) > 0 {
		s.mu.Unlock()
		return nil
	}
	if s.link.Blocked() || s.posts.waiting() {
		s.Flush(now)
	}
	next := s.nextTimer.Load()
	// The time to return at is only ever made later when it has passed. A timer
	// that comes and goes with every message, as the ACK timer does, would
	// otherwise need a Wake for every message posted.
	if s.wakeTime <= now || next < s.wakeTime {
		s.wakeTime = next
	}
	timeout := time.Duration(-1)
	if s.wakeTime != math.MaxInt64 {
		timeout = time.Duration(max(s.wakeTime-now, 0))
	}
	s.forgetSent()
	s.blocked = true
	s.mu.Unlock()

	err := s.link.Wait(timeout)

	s.mu.Lock()
	s.blocked = false
	if s.link.Blocked() || s.posts.waiting() {
		s.Flush(s.link.Now())
	}
	s.mu.Unlock()
	return err
}

// fail has the owner close the shard because its link is broken.
func (s *Shard) fail(err error) {
	if s.Closed() {
		return
	}
	s.owner.Failed(err)
	go s.owner.Close() // which waits for the caller's goroutine
}

// Poll makes progress on the caller's goroutine unless the shard's goroutine is at work. Only one
// caller receives at a time; the others have nothing to do.
func (s *Shard) Poll(expectReply func() bool) {
	if !s.Polled() {
		s.SendPosted()
		s.polledIdle()
		return
	}
	s.keeper.polls.Add(1)
	s.endPolledAckDelay()
	if !s.rxMu.TryLock() {
		return
	}
	s.answered = false
	_, err := s.progress(expectReply)
	if err == nil {
		err = s.lookOn()
	}
	s.rxMu.Unlock()
	if err != nil && !s.Closed() {
		s.owner.Failed(err)
		s.owner.Close()
	}
}

// drive handles an arrived packet or a due timer in a simulation, which calls it.
func (s *Shard) drive() {
	s.rxMu.Lock()
	for busy := true; busy; {
		busy, _ = s.progress(Never) // an error says that the link is closed
	}
	s.mu.Lock()
	s.forgetSent()
	s.mu.Unlock()
	s.rxMu.Unlock()
	if s.alarmDue() {
		s.runAlarms()
	}
}
