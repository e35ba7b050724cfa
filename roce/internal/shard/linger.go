package shard

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// linger is for a program in another language that polls its completion queue until its request is
// acknowledged, and then looks at memory, which its peer is about to write: so does ib_write_lat.
// Between the two nobody would receive. So the call that has received the acknowledgement looks on,
// for as long as a peer takes to notice and to write.
//
// It does so only after a packet was found that nobody had taken (see standby), and a look that
// brings no request is in vain: the more of these there are in succession, the fewer are tried.
type linger struct {
	on    atomic.Bool // a packet was missed
	trial             // of a look; under rxMu
}

// missed notes that packets waited and nobody took them.
func (l *linger) missed() { l.on.Store(true) }

// begins reports whether to look on, after nothing but answers came.
func (l *linger) begins() bool {
	return l.on.Load() && l.due()
}

// ends notes whether a request came.
func (l *linger) ends(came bool) {
	if came {
		l.paid()
		return
	}
	l.inVain()
}

// onlyAnswers reports whether packets were sent by responders: nothing of them is for memory that a
// peer writes by itself.
func onlyAnswers(rx []transport.RxPacket) bool {
	for i := range rx {
		if b := rx[i].Data; len(b) == 0 || !ib.Opcode(b[0]).Info().Response {
			return false
		}
	}
	return len(rx) > 0
}

// lookOn receives until a request has come, or standbyNs have passed. rxMu is held.
func (s *Shard) lookOn() error {
	if !s.answered || !s.linger.begins() {
		return nil
	}
	end := s.link.Now() + standbyNs
	for s.answered {
		if _, err := s.progress(Always); err != nil {
			return err
		}
		if s.link.Now() >= end {
			break
		}
	}
	s.linger.ends(!s.answered)
	return nil
}
