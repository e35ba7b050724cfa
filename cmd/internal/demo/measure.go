package demo

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/roce"
)

// bandwidth writes to the places of a window in turn. Each place has a pattern
// of its own, so that a message in a wrong place is found.
func (s *stage) bandwidth() error {
	const places = streamBytes / messageSize
	s.headline("bandwidth",
		fmt.Sprintf("WRITEs of %d bytes, %d on their way at a time, for %v.", messageSize, depth, s.length()))
	for i := range places {
		pattern(s.n.buf.Bytes()[streamStart+i*messageSize:][:messageSize], uint64(seedStream+i))
	}
	c := s.n.conns[streamConn]
	var window [depth]*roce.Pending
	posted := 0
	start := time.Now()
	for ; time.Since(start) < s.length() || posted < places; posted++ {
		if p := window[posted%depth]; p != nil {
			if err := p.Wait(s.ctx); err != nil {
				return err
			}
		}
		off := streamStart + posted%places*messageSize
		var err error
		if window[posted%depth], err = c.StartWrite(s.ctx, s.remote(off, messageSize),
			s.n.mr.SGE(off, messageSize)); err != nil {
			return err
		}
	}
	for _, p := range window {
		if p != nil {
			if err := p.Wait(s.ctx); err != nil {
				return err
			}
		}
	}
	done := posted
	elapsed := time.Since(start)
	for i := range places {
		if _, err := s.peer.ask(request{
			Op: "check", Off: streamStart + i*messageSize, Len: messageSize, Seed: uint64(seedStream + i),
		}); err != nil {
			return err
		}
	}
	mib := float64(done) * messageSize / elapsed.Seconds() / (1 << 20)
	s.outcome("%d messages in %.2f s: %.0f MiB/s (%.2f Gbit/s)", done, elapsed.Seconds(), mib, mib*(1<<20)*8/1e9)
	s.sum.Steps[len(s.sum.Steps)-1].MiBps = mib
	return nil
}

// latency reads the word again and again.
func (s *stage) latency() error {
	s.headline("latency", fmt.Sprintf("READs of 8 bytes, one after the other, for %v.", s.length()))
	const want = 4242
	var took []time.Duration
	for start := time.Now(); time.Since(start) < s.length() || len(took) == 0; {
		var word [8]byte
		t, err := timed(func() error { return s.n.conns[mainConn].Read(s.ctx, word[:], s.remote(wordOffset, 8)) })
		if err != nil {
			return err
		}
		if v := binary.NativeEndian.Uint64(word[:]); v != want {
			return fmt.Errorf("READ %d found %d instead of %d", len(took)+1, v, want)
		}
		took = append(took, t)
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	s.outcome("%d round trips: half within %v, 99 %% within %v", len(took), p50, p99)
	last := &s.sum.Steps[len(s.sum.Steps)-1]
	last.P50, last.P99 = float64(p50)/1000, float64(p99)/1000
	return nil
}

// length is how long a measurement takes.
func (s *stage) length() time.Duration { return time.Duration(s.o.seconds * float64(time.Second)) }
