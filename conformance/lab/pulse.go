package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/lab/guestproto"
)

const (
	// pulseTime is how often a guest is asked whether it runs: 20 datagrams a second are less than
	// a hundredth of an emulated CPU.
	pulseTime = 50 * time.Millisecond
	// minStandstill is the shortest time without an answer that is remembered.
	minStandstill = 100 * time.Millisecond
	// longStandstill is one that the summary counts apart: requesters of rxe's that are not told
	// otherwise wait for half a second.
	longStandstill = 300 * time.Millisecond
	// maxStandstills bounds what is remembered.
	maxStandstills = 4096
)

// Pulse asks a guest again and again whether it runs, over the management segment, and remembers
// when it did not: a program there sends back what it gets, as a program of a test would have to.
// It tells a guest that had no CPU, or none for its programs, from one that ran and did not answer.
type Pulse struct {
	now func() time.Duration

	mu      sync.Mutex
	asked   []time.Duration // when each question was sent that has no answer, the oldest first
	first   uint64          // number of the oldest of them
	heard   time.Duration   // when the last answer came
	stood   []standstill
	longest time.Duration
}

// standstill is a time without an answer: from a question, or the answer before, to an answer.
type standstill struct{ from, to time.Duration }

// StartPulse begins to ask, until ctx ends. Times are on the clock of the lab's wire.
func (g *Guest) StartPulse(ctx context.Context) (*Pulse, error) {
	c, err := net.Dial("udp4", net.JoinHostPort(g.mgmt, fmt.Sprint(guestproto.Port)))
	if err != nil {
		return nil, err
	}
	p := &Pulse{now: g.lab.Wire.Now}
	context.AfterFunc(ctx, func() { c.Close() })
	go func() {
		var b [8]byte
		for {
			// An error is an answer of ICMP's, or the end.
			switch n, err := c.Read(b[:]); {
			case err != nil && ctx.Err() != nil:
				return
			case err == nil && n == len(b):
				p.answered(binary.BigEndian.Uint64(b[:]))
			}
		}
	}()
	go func() {
		t := time.NewTicker(pulseTime)
		defer t.Stop()
		for {
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], p.ask())
			_, _ = c.Write(b[:]) // what is lost is a question without an answer
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return p, nil
}

// ask notes a question, and returns its number.
func (p *Pulse) ask() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == maxStandstills { // the guest is gone: the first of them says since when
		p.asked = slices.Delete(p.asked, 1, 2)
		p.first++
	}
	p.asked = append(p.asked, p.now())
	return p.first + uint64(len(p.asked)) - 1
}

// answered notes the answer to a question. Those before it are answered, too, or lost.
func (p *Pulse) answered(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := n - p.first
	if i >= uint64(len(p.asked)) {
		return // answered before
	}
	now := p.now()
	// The oldest question says since when there is no answer, but for those to others.
	if from := max(p.asked[0], p.heard); now-from >= minStandstill {
		if len(p.stood) == maxStandstills {
			p.stood = slices.Delete(p.stood, 0, maxStandstills/2)
		}
		p.stood = append(p.stood, standstill{from, now})
		p.longest = max(p.longest, now-from)
	}
	p.asked = slices.Delete(p.asked, 0, int(i)+1)
	p.first, p.heard = n+1, now
}

// StoodStill returns for how long the guest answered nobody between two times: the longest such
// time, and all together.
func (p *Pulse) StoodStill(from, to time.Duration) (longest, all time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stood := p.stood
	if now := p.now(); len(p.asked) > 0 {
		if since := max(p.asked[0], p.heard); now-since >= minStandstill {
			stood = append(slices.Clip(stood), standstill{since, now})
		}
	}
	for _, s := range stood {
		if d := min(s.to, to) - max(s.from, from); d > 0 {
			longest = max(longest, d)
			all += d
		}
	}
	return longest, all
}

// Summary says how often the guest has stood still, as far as it is remembered, and for how long at
// most.
func (p *Pulse) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stood) == 0 {
		return fmt.Sprintf("it always answered within %v", minStandstill)
	}
	n := 0
	for _, s := range p.stood {
		if s.to-s.from >= longStandstill {
			n++
		}
	}
	return fmt.Sprintf("it did not answer for %v or more %d times, for %v or more %d times, and for %v at most",
		minStandstill, len(p.stood), longStandstill, n, p.longest.Round(time.Millisecond))
}
