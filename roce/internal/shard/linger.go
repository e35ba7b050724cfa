package shard

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// linger looks on for packets after an acknowledgement, for as long as a peer takes to notice it
// and to write. A program in another language may poll its completion queue until its request is
// acknowledged, and then watch memory that its peer is about to write, as ib_write_lat does.
// Meanwhile nobody would receive, so the call that received the acknowledgement looks on.
//
// It looks on only after a packet was found that nobody had taken (see standby). The more looks in
// succession bring no request, the fewer are tried.
type linger struct {
	on      atomic.Bool // a packet was missed
	backOff             // of a look; under rxMu
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
	l.failed()
}

// onlyAnswers reports whether there are packets and responders sent them all: none of them writes
// memory that the program did not ask for.
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
