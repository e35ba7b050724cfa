package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/cmd/internal/tool"
)

// mark is how a level looks in front of a finding.
var mark = [...]struct {
	word  string
	style tool.Style
}{
	OK: {"ok", tool.Green}, Note: {"note", tool.Cyan}, Unknown: {"?", tool.Faint},
	Warn: {"WARN", tool.Yellow}, Fail: {"FAIL", tool.Red},
}

// Columns of the text.
const (
	markColumn = 5
	nameColumn = 14
	textIndent = markColumn + nameColumn
)

// writeText prints findings. Those that are ok are a line each; others say why it matters, and what
// to type.
func writeText(w io.Writer, s tool.Screen, all []Finding) {
	for i := range all {
		f := &all[i]
		text := f.Found
		if f.Subject != "" {
			text = f.Subject + ": " + text
		}
		for n, line := range s.Wrap(s.Printable(text), textIndent) {
			if n == 0 {
				m := mark[f.Level]
				fmt.Fprintf(w, "%s%s%s", s.Paint(m.style, pad(m.word, markColumn)),
					s.Paint(tool.Bold, pad(f.Check, nameColumn)), line)
			} else {
				fmt.Fprintf(w, "%s%s", strings.Repeat(" ", textIndent), line)
			}
			fmt.Fprintln(w)
		}
		if f.Level <= OK {
			continue
		}
		if f.Why != "" {
			for _, line := range s.Wrap(s.Printable(f.Why), textIndent) {
				fmt.Fprintf(w, "%s%s\n", strings.Repeat(" ", textIndent), line)
			}
		}
		for _, c := range f.Mend { // whole, so that it can be copied
			fmt.Fprintf(w, "%s%s\n", strings.Repeat(" ", textIndent), s.Paint(tool.Bold, s.Printable(c)))
		}
	}
	fmt.Fprintln(w, "\n"+summary(all))
}

func pad(s string, n int) string { return fmt.Sprintf("%-*s", n, s) }

// summary counts the levels.
func summary(all []Finding) string {
	var n [Fail + 1]int
	for i := range all {
		n[all[i].Level]++
	}
	var verdict string
	switch worst(all) {
	case Fail:
		verdict = "RoCE does not work here, or not everywhere"
	case Warn:
		verdict = "RoCE works, worse than it could"
	default:
		verdict = "nothing is in the way of RoCE"
	}
	return fmt.Sprintf("%s: %d failed, %d warnings, %d notes, %d unknown, %d ok", verdict, n[Fail], n[Warn],
		n[Note], n[Unknown], n[OK])
}
