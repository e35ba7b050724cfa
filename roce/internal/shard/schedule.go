package shard

import (
	"math"

	"github.com/goroce/goroce/transport"
)

// This file is the transmit scheduler: it answers "send now, or wait for what". There
// are three rules.
//
//   - What there is leaves at once, as far as the link takes it (Flush).
//   - An acknowledgement waits for a reply that the application may be about to
//     post, or for what else is at hand in the link (delayedAck).
//   - A message that is posted behind others waits for more of its kind,
//     or for those of others that were woken with its poster (coalescer).
//
// Whatever is sent takes along all that waits.

// next is what becomes of what there is to send after packets were handled.
type next uint8

const (
	sendNow     next = iota
	receiveMore      // first, and then ask again
	awaitReply       // of the application
)

// received is what is known then.
type received struct {
	now        int64
	background bool // the goroutine of the shard is at work, and comes back soon
	packets    int  // in the last batch
	gathered   int  // in all batches since something was sent
	timer      bool // one is due, and may have run
	lookOnce   bool // one is due, and waits for a look at the link that finds nothing
	onlyAcks   bool // there is nothing to send but acknowledgements
	woke       bool // the packets were waited for
	// expectReply reports whether the application is likely to send something next.
	// It is called at most once.
	expectReply func() bool
}

// afterReceive decides what to do with what there is to send after packets were handled.
func (a *delayedAck) afterReceive(r received) next {
	switch {
	case r.lookOnce && r.packets == 0:
		return receiveMore // then the timers can run
	case r.background && r.packets > 0 && r.gathered < gather && !r.timer && !r.woke && r.onlyAcks:
		return receiveMore
	case !r.timer && r.expectReply() && a.begin(r.now, r.onlyAcks):
		return awaitReply
	}
	return sendNow
}

// Flush sends what the engine has to send, hands out its events and notes its
// next timer, and does the same for the service, which sends and receives through the
// engine. The lock is held.
func (s *Shard) Flush(now int64) {
	s.ack.answered()
	s.Transmit(now)
	for s.service != nil && s.service.Ready() {
		s.service.Run(now)
		s.Transmit(now)
	}
	s.noteTimers()
}

// Settle sends everything that waits, acknowledgements above all, before a command that may end a
// queue pair. The application already knows what they acknowledge and may close for that reason;
// its peer must not take that for a failure. The lock is held.
func (s *Shard) Settle(now int64) {
	if !s.releaseAck(now) {
		s.Transmit(now)
	}
}

// Posted sends a message that was just posted, or leaves it to be sent with others. inFlight
// says that others of its queue pair are on their way; bytes is its length. The lock
// is held.
func (s *Shard) Posted(now int64, inFlight bool, bytes int) {
	s.notePost()
	if inFlight {
		s.lease.posted()
	}
	if s.blocked || !s.mayWait(inFlight) || !s.posts.add(now, bytes) {
		s.posts.joins()
		s.Flush(now)
	}
}

// mayWait reports whether a message that was just posted may be sent with others. The lock is held.
func (s *Shard) mayWait(inFlight bool) bool {
	if s.Background() {
		return inFlight || s.posts.crowd.Load()
	}
	return s.busy() > crowdSize && s.posts.due()
}

// PostedAll sends messages that were posted together, at once. The lock is held.
func (s *Shard) PostedAll(now int64) {
	s.notePost()
	s.lease.against()
	s.Flush(now)
}

// SendBeforeWait is SendPosted for a poster that is going to wait. It leaves the sending to the
// goroutine of the shard if that has woken others as well, which may also post.
func (s *Shard) SendBeforeWait() {
	if !s.posts.crowd.Load() {
		s.SendPosted()
	}
}

// SendPosted sends messages that wait for others, before their poster sees an empty
// completion queue.
func (s *Shard) SendPosted() {
	if !s.posts.waiting() {
		return
	}
	s.mu.Lock()
	if !s.shut && s.posts.waiting() {
		s.Flush(s.link.Now())
	}
	s.mu.Unlock()
}

// Received sends the credits that a peer waits for, if the connections have any, after a
// receive was posted, and hands out what came of one that was posted in ERR. The lock is
// held.
func (s *Shard) Received() {
	s.handOut()
	if s.credits && !s.ack.delayed() { // at the end of a delay they leave anyway
		s.Flush(s.link.Now())
	}
}

// Transmit sends what the engine has to send and hands out its events. The lock is held.
func (s *Shard) Transmit(now int64) {
	if s.link.Blocked() {
		s.link.Send(nil)
	}
	for !s.link.Blocked() {
		n := s.pollTransmit(now)
		if n == 0 {
			break
		}
		s.txUsed = max(s.txUsed, n)
		s.send(now, s.tx[:n])
	}
	s.posts.sent(now)
	s.handOut()
}

// forgetSent drops references to sent packets: a packet refers to its queue pair and to the memory
// of its payload, and the last places of a long batch may stay unused for hours. The lock is held.
func (s *Shard) forgetSent() {
	for i := range s.tx[:s.txUsed] {
		s.tx[i].Forget()
	}
	s.txUsed = 0
}

// handOut hands out the engine's events. The lock is held.
func (s *Shard) handOut() {
	for {
		ev, ok := s.eng.PollEvent()
		if !ok {
			return
		}
		if ev.Type != transport.EventCompletion {
			s.owner.Event(ev)
		} else if v, ok := ev.CQ.UserData().(Service); ok {
			v.Completed()
		} else {
			s.owner.Completed(ev.CQ)
		}
	}
}

// Woke notes that the packets that are being handled were waited for, by a goroutine in WaitFor;
// sig is nil for one that waits by other means. The lock is held.
func (s *Shard) Woke(sig *Signal) {
	s.woke = true
	s.posts.woken.Add(1)
	s.lease.woke(sig, s.waiting.Load() == 1)
}

// noteTimers notes when the engine's and the service's next timer is due. The lock is
// held.
func (s *Shard) noteTimers() {
	at, ok := s.eng.NextTimeout()
	if !ok {
		at = math.MaxInt64
	}
	if s.service != nil {
		at = min(at, s.service.NextTimeout())
	}
	if s.nextTimer.Load() != at {
		s.nextTimer.Store(at)
	}
	if s.driven != nil {
		if alarm, set := s.alarms.next(); set {
			at = min(at, alarm)
		}
		s.driven.SetTimer(at, at != math.MaxInt64)
		return
	}
	if s.blocked && (at < s.wakeTime || s.link.Blocked()) {
		s.blocked = false
		s.link.Wake()
	}
}
