package lesson

import (
	"fmt"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/verbs"
)

// facts are what a run knows of itself, from both ends: no single capture has them all.
type facts struct {
	requests, answers     int          // that were sent: by A, by B
	lostRequests, lostAns []stage.Fate // of those
	lostReads             []stage.Fate // of the answers: data of a READ
	swapped, by           *stage.Fate  // a packet, and one behind it that has overtaken it
	rnr, cnps             int          // that A had
	failed                verbs.WCStatus
	refused               bool
	long                  bool // what was lost is longer than all that arrived
	silent                bool // from the first loss to the end nothing arrived
}

func (r *run) facts() (*facts, error) {
	f := &facts{refused: r.refused, failed: verbs.WCSuccess}
	for _, wc := range r.wcs {
		if wc.Status != verbs.WCSuccess && f.failed == verbs.WCSuccess {
			f.failed = wc.Status
		}
	}
	c := r.s.Hosts[0].Device.Counters()
	f.rnr, f.cnps = int(c.RcvdRNRErr), int(c.CNPsHandled)
	sent, _, err := r.s.Fates(0)
	if err != nil {
		return nil, err
	}
	answers, _, err := r.s.Fates(1)
	if err != nil {
		return nil, err
	}
	longest, shortest := -1, 1<<30
	last := &stage.Fate{}
	for i := range sent {
		p := &sent[i]
		f.requests++
		switch {
		case p.Lost():
			f.lostRequests = append(f.lostRequests, *p)
			shortest = min(shortest, p.Bytes)
			continue
		case p.Arrived < last.Arrived && f.swapped == nil:
			f.swapped, f.by = last, p
		case p.Arrived > last.Arrived:
			last = p
		}
		longest = max(longest, p.Bytes)
	}
	for _, p := range answers {
		f.answers++
		switch read := p.Opcode.Info().Op == ib.OpReadResponse; {
		case p.Lost() && read:
			f.lostReads = append(f.lostReads, p)
		case p.Lost():
			f.lostAns = append(f.lostAns, p)
		}
	}
	if n := len(f.lostRequests); n > 0 && f.failed == verbs.WCRetryExcErr {
		f.long = shortest > longest
		f.silent = !f.long && slices.IndexFunc(sent, func(p stage.Fate) bool { return p.Lost() }) == len(sent)-n
	}
	return f, nil
}

// lone reports whether packets were lost and the connection lived.
func (f *facts) lone(lost []stage.Fate) bool { return len(lost) > 0 && f.failed == verbs.WCSuccess }

// where is a lost packet in words.
func where(lost []stage.Fate, from, to string) string {
	return fmt.Sprintf("%v with PSN %d, packet %d on host %s, did not arrive at %s", lost[0].Opcode,
		lost[0].PSN, lost[0].Frame, from, to)
}
