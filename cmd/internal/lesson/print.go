package lesson

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/cmd/internal/explain"
)

// print writes a lesson as text.
func (l *lesson) print(w io.Writer, r *run, answers bool) error {
	rungs, report, err := r.ladder()
	if err != nil {
		return err
	}
	hidden, verdict := r.verdict()
	fmt.Fprintf(w, "%s\n%s\n\n%s", l.title, strings.Repeat("=", len(l.title)), explain.Wrap("", l.text))
	if len(l.after) > 0 {
		fmt.Fprintf(w, "\nBuilds on: %s\n", strings.Join(l.after, ", "))
	}
	fmt.Fprintln(w)
	for _, p := range l.params {
		fmt.Fprintf(w, "  %s=%d  %s\n", p.name, r.v[p.name], p.help)
	}
	if len(l.questions) > 0 {
		fmt.Fprintf(w, "\n%s", explain.Wrap("", "Before you look: "+l.questions[0].ask))
	}
	if l.chart {
		chart, err := r.chart()
		if err != nil {
			return err
		}
		fmt.Fprint(w, "\n", chart)
	}
	fmt.Fprintf(w, "\nHost A is %v, host B %v. The packets, as they are seen %v", r.s.Hosts[0].Addr,
		r.s.Hosts[1].Addr, l.viewOf(r.v))
	if r.pictured() {
		fmt.Fprint(w, "; beside them, how many work requests\nare in the send and receive queue (SQ, RQ) and completions in the completion queue (CQ) after each")
	}
	fmt.Fprint(w, ":\n\n")
	if r.pictured() {
		fmt.Fprintf(w, "%18s  SQ RQ CQ%66s SQ RQ CQ\n", "", "")
	}
	some, left := shown(rungs, hidden)
	for i := range some {
		if left[i] > 0 {
			fmt.Fprintf(w, "%18s%s\n", "", gapText(left[i]))
		}
		fmt.Fprintln(w, some[i].text(r.pictured(), hidden))
	}
	if r.pictured() {
		fmt.Fprintln(w, r.atEnd())
	}
	fmt.Fprintln(w)
	for _, s := range r.said {
		fmt.Fprint(w, explain.Wrap("", s))
	}
	if !hidden {
		fmt.Fprintln(w, "\nWhat the analyser makes of it:")
		if len(report.Findings) == 0 {
			fmt.Fprintln(w, "\n  Nothing went wrong.")
		}
		for _, f := range report.Findings {
			fmt.Fprintf(w, "\n  packet %d: %s\n%s", f.Frames[0], f.Kind, explain.Wrap("    ", f.Text))
		}
	}
	if choices := l.offered(r.v); choices != "" {
		fmt.Fprintf(w, "\nWhat happened?\n%s", choices)
	}
	if verdict != "" {
		fmt.Fprintf(w, "\n%s", explain.Wrap("", verdict))
		return nil
	}
	fmt.Fprintln(w)
	for i, q := range l.questions {
		fmt.Fprint(w, explain.Wrap("", fmt.Sprintf("Question %d: %s", i+1, q.ask)))
		if answers {
			fmt.Fprint(w, explain.Wrap("  ", q.answer(r)))
		}
	}
	if !answers {
		fmt.Fprintf(w, "\nThe answers: roce lesson --answers %s\n", l.name)
	}
	fmt.Fprintf(w, "Change something: roce lesson %s %s\n", l.name, l.tries[0])
	_, err = fmt.Fprint(w,
		explain.Wrap("", "Words: "+strings.Join(wordsIn(l), ", ")+". roce lesson words WORD says what one means."))
	return err
}

// noAnswer says how to give one.
type noAnswer string

func (e noAnswer) Error() string { return string(e) }

// verdict is what an exercise says of the numbers, and whether the run still keeps what went wrong
// to itself.
func (r *run) verdict() (hidden bool, text string) {
	if r.l.goal == nil {
		return false, ""
	}
	why, err := r.l.goal(r)
	var how noAnswer
	if r.unanswered = errors.As(err, &how); r.unanswered {
		return r.l.hidden, how.Error()
	}
	if err != nil {
		return r.l.hidden, "Not yet: " + err.Error()
	}
	return false, "Right: " + why
}
