package lesson

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/cmd/internal/explain"
	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
)

// options is the command line.
type options struct {
	html, pcap, answers bool
	output, site        string
}

func (o *options) table() []getopt.Option {
	return []getopt.Option{
		{Short: 'a', Long: "answers", Help: "with the answers to the questions", Set: getopt.Bool(&o.answers)},
		{Long: "html", Help: "write the packets and what they mean as a page of HTML", Set: getopt.Bool(&o.html)},
		{Long: "pcap", Help: "write the packets as a pcapng file", Set: getopt.Bool(&o.pcap)},
		{Long: "site", Arg: "dir", Help: "write all lessons as a site that needs no server",
			Set: getopt.String(&o.site)},
		{Short: 'o', Long: "output", Arg: "file", Help: "where to; by default standard output",
			Set: getopt.String(&o.output)},
	}
}

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{Name: "lesson", Summary: "guided runs on a simulated link, one idea of RDMA each", Run: main}
}

const usage = `lesson: guided runs on a simulated link, one idea of RDMA each

Usage:
  roce lesson                      lists them
  roce lesson [options] NAME [NUMBER=VALUE ...]
  roce lesson words [WORD]         the glossary
  roce lesson --site DIR           all of it as HTML

Options:
`

func main(_ context.Context, env *tool.Env, args []string) error {
	o := &options{}
	operands, err := tool.Parse(usage, o.table(), args)
	switch {
	case err != nil:
		return err
	case o.site != "":
		if len(operands) > 0 || o.html || o.pcap || o.output != "" {
			return getopt.Misuse("--site writes all lessons, and goes with nothing else")
		}
		return writeSite(o.site)
	case o.html && o.pcap:
		return getopt.Misuse("--html and --pcap exclude each other")
	case len(operands) == 0:
		_, err := fmt.Fprint(env.Stdout, list())
		return err
	case operands[0] == "words":
		text, err := glossary(operands[1:])
		if err != nil {
			return getopt.Misuse("%w", err)
		}
		_, err = fmt.Fprint(env.Stdout, text)
		return err
	}
	l := find(operands[0])
	if l == nil {
		return getopt.Misuse("there is no lesson %q; \"roce lesson\" lists them", operands[0])
	}
	v, err := l.values(operands[1:])
	if err != nil {
		return getopt.Misuse("%w", err)
	}
	r, err := l.perform(v)
	if err != nil {
		return err
	}
	return env.Output(o.output, func(w io.Writer) error {
		capture := r.s.Capture(l.viewOf(v))
		switch {
		case o.html:
			return explain.Page(w, "roce lesson "+strings.Join(operands, " "), bytes.NewReader(capture))
		case o.pcap:
			_, err := w.Write(capture)
			return err
		}
		return l.print(w, r, o.answers)
	})
}

// find returns the lesson of a name, or of a number as the list has it.
func find(name string) *lesson {
	all := everything()
	for i := range all {
		if all[i].name == name || fmt.Sprint(i+1) == name {
			return &all[i]
		}
	}
	return nil
}

func list() string {
	var b strings.Builder
	b.WriteString(
		"Each lesson is a run on a simulated link, one idea. They build on each other; an hour is enough for all.\n")
	n := 0
	for _, p := range parts() {
		fmt.Fprintf(&b, "\n%s\n", p.title)
		for _, l := range p.lessons {
			n++
			fmt.Fprintf(&b, "%3d  %-11s %s\n", n, l.name, l.title)
		}
	}
	b.WriteString("\nExercises: choose the numbers, and the run says whether they are right\n")
	for _, l := range exercises() {
		fmt.Fprintf(&b, "     %-11s %s\n", l.name, strings.TrimPrefix(l.title, "Exercise: "))
	}
	b.WriteString("\nAfter the hour: what happened in ten captures?\n     quiz1 ... quiz10\n")
	b.WriteString("\nroce lesson connect begins. Numbers can be changed: roce lesson connect late=0. --html shows the packets as a page.\n")
	return b.String()
}
