package explain

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/roce/analyse/strict"
)

// checkStrictly holds a file against the rules of the specification, for --strict. It returns an
// error if one is broken.
func (o *options) checkStrictly(env *tool.Env, name string) error {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	rep, err := strict.Read(in, strict.Options{Complete: o.complete, Lossless: o.lossless})
	if rep == nil {
		return err
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "explain: %s: %v; what came before is checked\n", name, err)
	}
	err = env.Output(o.output, func(w io.Writer) error {
		if o.json {
			return tool.WriteJSON(w, struct {
				File string `json:"file"`
				*strict.Report
			}{name, rep})
		}
		printViolations(w, name, rep, o.verbose)
		return nil
	})
	if err != nil {
		return err
	}
	n := 0
	for _, c := range rep.Broken {
		n += c.Certain
	}
	if n > 0 {
		return fmt.Errorf("rules are broken by %s", count(n, "packet"))
	}
	return nil
}

// printViolations writes one line a violation, and then how many there are of each rule.
func printViolations(w io.Writer, name string, rep *strict.Report, all bool) {
	fmt.Fprintf(w, "%s: %s of RoCE v2, %s followed\n", name, count(rep.Packets, "packet"), count(rep.Checked, "packet"))
	infos := map[strict.Rule]strict.RuleInfo{}
	for _, i := range strict.Rules() {
		infos[i.Rule] = i
	}
	shown := map[strict.Rule]int{}
	for i := range rep.Violations {
		v := &rep.Violations[i]
		if shown[v.Rule]++; shown[v.Rule] > shownOfKind && !all {
			continue
		}
		sure := "certain"
		if !v.Certain {
			sure = "possible; an excuse would be: " + excuses(v.Excuses)
		}
		more := ""
		if v.More > 0 {
			more = fmt.Sprintf("; and %s more", count(v.More, "packet"))
		}
		fmt.Fprintf(w, "packet %d  %s (%s), by %v: allowed is %s; came %s%s [%s]\n", v.Frame, v.Rule,
			infos[v.Rule].Source, v.By, v.Allowed, v.Came, more, sure)
	}
	rules := slices.Sorted(maps.Keys(rep.Broken))
	if len(rules) == 0 {
		fmt.Fprintln(w, "no rule is broken")
	}
	for _, r := range rules {
		c := rep.Broken[r]
		cut := ""
		if n := shown[r]; n > shownOfKind && !all {
			cut = fmt.Sprintf("; the first %d are shown, -v shows all", shownOfKind)
		}
		fmt.Fprintf(w, "%-14s %6d certain %6d possible  %s%s\n", r, c.Certain, c.Possible, infos[r].Text, cut)
	}
	if rep.Selective > 0 {
		fmt.Fprintf(w, "%s of senders that repeat selectively (docs/loss.md), by a reserved bit that receivers ignore: no violation\n",
			count(rep.Selective, "packet"))
	}
	if rep.Left > 0 {
		fmt.Fprintf(w, "%s not followed: there are too many connections\n", count(rep.Left, "packet"))
	}
}

func excuses(list []strict.Excuse) string {
	s := make([]string, len(list))
	for i, e := range list {
		s[i] = string(e)
	}
	return strings.Join(s, ", or ")
}

// rulesText lists the rules of --strict.
func rulesText() string {
	var b strings.Builder
	for _, i := range strict.Rules() {
		fmt.Fprintf(&b, "%s (%s; %s)\n", i.Rule, i.Who, i.Source)
		b.WriteString(textStyle{width: defaultWidth}.wrap("  ", i.Text))
	}
	return b.String()
}
