package shard

import (
	"math"

	"github.com/goroce/goroce/transport"
)

// Flush sends what the engine has to send, hands out its events and notes its next timer, and does
// the same for the service, which sends and receives through the engine. The lock is held.
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

// noteTimers notes when the engine's and the service's next timer is due. The lock is held.
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
