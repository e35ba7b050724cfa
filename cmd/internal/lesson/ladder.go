package lesson

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/pcap"
)

// maxLadder bounds the packets that are shown.
const maxLadder = 60

// rung is a packet of the ladder, and what the queues of the two hosts hold when the host where the
// capture was taken has handled it.
type rung struct {
	frame  int
	atNs   int64
	fromA  bool
	lost   bool // it did not arrive: what the run knows, and a capture on the sender does not show
	answer bool
	ce     bool
	what   string
	note   string          // why it was sent again, or that it is late: what the run knows, too
	queues [2]*stage.State // nil: the lesson has no queue pair there, or not yet
}

// ladder returns the packets of a run, and what the analyser makes of them.
func (r *run) ladder() (rungs []rung, report *analyse.Report, err error) {
	view := r.l.viewOf(r.v)
	here := int(view) // At0, At1
	sent, _, err := r.s.Fates(here)
	if err != nil {
		return nil, nil, err
	}
	came, _, err := r.s.Fates(1 - here)
	if err != nil {
		return nil, nil, err
	}
	lost, late := map[int]bool{}, map[int]bool{}
	for _, f := range sent {
		lost[f.Frame] = f.Lost()
	}
	next := math.MaxInt // the first to arrive of those that were sent later
	for _, f := range slices.Backward(came) {
		if late[f.Arrived] = f.Arrived > next; !f.Lost() {
			next = min(next, f.Arrived)
		}
	}
	a := analyse.New(analyse.Options{})
	var notes []analyse.Note
	err = r.s.Packets(view, func(p *pcap.Packet) {
		n := a.Add(p)
		notes = append(notes, n)
		g := rung{frame: p.Frame, atNs: p.AtNs, fromA: p.Flow.Src == r.s.Hosts[0].Addr, lost: lost[p.Frame],
			answer: p.Opcode.Info().Response || p.Opcode == ib.CNP, ce: p.CE(), what: label(p, n)}
		switch {
		case late[p.Frame]: // it was not sent again, whatever it looks like
			g.note = "late"
		case n.Cause != analyse.CauseNone:
			g.note = fmt.Sprintf("again: %v", n.Cause)
		}
		g.queues[here] = r.s.Hosts[here].After(p.Frame)
		g.queues[1-here] = r.s.Hosts[1-here].When(p.AtNs)
		rungs = append(rungs, g)
	})
	report = a.Report()
	if len(report.Connections) > 1 {
		for i, n := range notes {
			rungs[i].what += fmt.Sprintf(" [%d]", report.Connection(n.Connection))
		}
	}
	return rungs, report, err
}

// shown are the rungs that are shown: all, or those at both ends and, between, the first of each
// kind that is no usual request or ACK. left[i] is how many were left out before some[i].
func shown(rungs []rung, hidden bool) (some []rung, left []int) {
	const ofKind = 4
	gap := 0
	kinds := map[string]int{}
	for i, g := range rungs {
		if len(rungs) > maxLadder && i >= maxLadder/3 && i < len(rungs)-maxLadder/3 {
			kind := ""
			switch name, _, _ := strings.Cut(g.what, " "); {
			case g.lost && !hidden:
				kind = "lost"
			case g.ce:
				kind = "CE"
			case g.answer && name != "ACK":
				kind = name
			}
			if kinds[kind]++; kind == "" || kinds[kind] > ofKind {
				gap++
				continue
			}
		}
		some, left = append(some, g), append(left, gap)
		gap = 0
	}
	return some, left
}

// gapText says how many packets were left out.
func gapText(n int) string {
	if n == 1 {
		return "... 1 packet ..."
	}
	return fmt.Sprintf("... %d packets ...", n)
}

// label is a packet in a few words.
func label(p *pcap.Packet, n analyse.Note) string {
	what := p.Opcode.String()
	for _, service := range []string{"RC ", "UC ", "UD "} {
		what = strings.TrimPrefix(what, service)
	}
	switch s := p.AETH.Syndrome; {
	case n.CM != 0:
		what = "CM " + n.CM.String()
	case p.Opcode == ib.RCAcknowledge && s.Kind() == ib.SyndromeACK:
		what = fmt.Sprintf("ACK %d", p.PSN)
	case p.Opcode.Has(ib.HasAETH) && s.Kind() != ib.SyndromeACK:
		what = fmt.Sprintf("%v, PSN %d", s, p.PSN)
	case p.Opcode != ib.CNP:
		what = fmt.Sprintf("%s %d", what, p.PSN)
	}
	if p.PayloadBytes > 0 && n.CM == 0 {
		what += fmt.Sprintf(", %d B", p.PayloadBytes)
	}
	if p.AckReq {
		what += ", wants ACK"
	}
	if p.CE() {
		what += ", CE"
	}
	return what
}

// text is a rung of the ladder in the terminal: A is left, B right.
func (g *rung) text(pictured, hidden bool) string {
	const width = 58
	what := " " + g.what + " "
	if g.note != "" && !hidden {
		what += "(" + g.note + ") "
	}
	dashes := max(width-len(what), 4)
	line := strings.Repeat("-", dashes/2) + what + strings.Repeat("-", dashes-dashes/2)
	from, to := "A "+line, "> B"
	if !g.fromA {
		from, to = "A <"+line, " B"
	}
	if g.lost && !hidden {
		switch {
		case g.fromA:
			to = "x  "
		default:
			from = "   x" + line[1:]
		}
	}
	s := fmt.Sprintf("%4d %10.1f us ", g.frame, float64(g.atNs)/1000)
	if !pictured {
		return s + " " + from + to
	}
	return s + counts(g.queues[0]) + " " + from + to + counts(g.queues[1])
}

// atEnd is the line behind the ladder: the queues when all is over.
func (r *run) atEnd() string {
	last := func(h *stage.Host) *stage.State { return h.When(r.s.Net.Now()) }
	return fmt.Sprintf("%18s%s%66s%s", "at the end", counts(last(r.s.Hosts[0])), "", counts(last(r.s.Hosts[1])))
}

// counts is how full the queues of a host are.
func counts(s *stage.State) string {
	if s == nil {
		return "  -  -  -"
	}
	return fmt.Sprintf("%3d%3d%3d", s.Sends, s.Recvs, s.Completions)
}

// pictured reports whether the run has queues to show.
func (r *run) pictured() bool { return len(r.s.Hosts[0].States) > 0 }
