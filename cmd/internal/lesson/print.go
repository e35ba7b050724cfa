package lesson

import (
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/cmd/internal/explain"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
	"github.com/goroce/goroce/roce/pcap"
)

// maxLadder bounds the packets that are printed: half of them from the start, half from the end.
const maxLadder = 60

// print writes a lesson as text.
func (l *lesson) print(w io.Writer, r *run, answers bool) error {
	fmt.Fprintf(w, "%s\n%s\n\n%s\n", l.title, strings.Repeat("=", len(l.title)), explain.Wrap("", l.text))
	for _, p := range l.params {
		fmt.Fprintf(w, "  %s=%d  %s\n", p.name, r.v[p.name], p.help)
	}
	view := l.viewOf(r.v)
	fmt.Fprintf(w, "\nHost A is %v, host B %v. The packets, as they are seen %v:\n\n", r.s.Hosts[0].Addr, r.s.Hosts[1].Addr, view)
	var rungs []string
	a := analyse.New(analyse.Options{})
	err := r.s.Packets(view, func(p *pcap.Packet) {
		n := a.Add(p)
		rungs = append(rungs, rung(p, n, p.Flow.Src == r.s.Hosts[0].Addr))
	})
	if err != nil {
		return err
	}
	report := a.Report()
	for i, s := range rungs {
		switch {
		case i < maxLadder/2 || i >= len(rungs)-maxLadder/2:
			fmt.Fprintln(w, s)
		case i == maxLadder/2:
			fmt.Fprintf(w, "%18s... %d packets ...\n", "", len(rungs)-maxLadder)
		}
	}
	fmt.Fprintln(w)
	for _, s := range r.said {
		fmt.Fprint(w, explain.Wrap("", s))
	}
	fmt.Fprintln(w, "\nWhat the analyser makes of it:")
	if len(report.Findings) == 0 {
		fmt.Fprintln(w, "\n  Nothing went wrong.")
	}
	for _, f := range report.Findings {
		fmt.Fprintf(w, "\n  packet %d: %s\n%s", f.Frames[0], f.Kind, explain.Wrap("    ", f.Text))
	}
	fmt.Fprintln(w)
	for i, q := range l.questions {
		fmt.Fprint(w, explain.Wrap("", fmt.Sprintf("Question %d: %s", i+1, q.ask)))
		if answers {
			fmt.Fprint(w, explain.Wrap("  ", q.answer(r.v)))
		}
	}
	if !answers {
		fmt.Fprintf(w, "\nThe answers: roce lesson --answers %s\n", l.name)
	}
	_, err = fmt.Fprintf(w, "Change something: roce lesson %s %s\n", l.name, l.next)
	return err
}

// rung is a packet of the ladder: A is left, B right.
func rung(p *pcap.Packet, n analyse.Note, fromA bool) string {
	what := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(p.Opcode.String(), "RC "), "UC "), "UD ")
	switch s := p.AETH.Syndrome; {
	case p.Opcode == ib.RCAcknowledge && s.Kind() == ib.SyndromeACK:
		what = fmt.Sprintf("ACK %d", p.PSN)
	case p.Opcode.Has(ib.HasAETH) && s.Kind() != ib.SyndromeACK:
		what = fmt.Sprintf("%v, PSN %d", s, p.PSN)
	case p.Opcode != ib.CNP:
		what = fmt.Sprintf("%s %d", what, p.PSN)
	}
	if p.PayloadBytes > 0 {
		what += fmt.Sprintf(", %d B", p.PayloadBytes)
	}
	if p.AckReq {
		what += ", asks for an ACK"
	}
	if p.CE() {
		what += ", CE"
	}
	if n.Cause != analyse.CauseNone {
		what += fmt.Sprintf(" (again: %v)", n.Cause)
	}
	const width = 72
	what = " " + what + " "
	dashes := max(width-len(what), 4)
	left, right := dashes/2, dashes-dashes/2
	arrow := "A " + strings.Repeat("-", left) + what + strings.Repeat("-", right) + "> B"
	if !fromA {
		arrow = "A <" + strings.Repeat("-", left) + what + strings.Repeat("-", right) + " B"
	}
	return fmt.Sprintf("%4d %11.1f us  %s", p.Frame, float64(p.AtNs)/1000, arrow)
}
