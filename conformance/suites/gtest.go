package suites

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// gtest is a program made with googletest.
type gtest struct {
	argv []string
	env  []string
	// test reports whether a test, by its whole name, is of the suite.
	test func(name string) bool
	// silence is how long one test may print nothing.
	silence time.Duration
}

// gtestBatch is how many tests a process runs: a process takes a second to start, and tests that
// follow each other share what a crash destroys.
const gtestBatch = 25

// list returns the names of the tests.
func (g gtest) list(ctx context.Context, t *Turn) ([]string, error) {
	var all []string
	group := ""
	err := t.Site.Run(ctx, 0, Command{Dir: t.Dir, Env: g.env, Argv: append(slices.Clone(g.argv),
		"--gtest_list_tests"), Silence: g.silence, OnLine: func(line string) {
		name, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "#")
		switch name = strings.TrimRight(name, " "); {
		case strings.HasPrefix(name, "  ") && group != "":
			all = append(all, group+strings.TrimSpace(name))
		case strings.HasSuffix(name, ".") && !strings.ContainsAny(name, " \t"):
			group = name
		}
	}})
	if err == nil && len(all) == 0 {
		err = errors.New("the program lists no tests")
	}
	return all, err
}

// run runs all tests of the suite that t asks for.
func (g gtest) run(ctx context.Context, t *Turn) error {
	all, err := g.list(ctx, t)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(name string) bool { return !g.test(name) || !t.asked(name) })
	t.Logf("%d tests", len(all))
	for len(all) > 0 && ctx.Err() == nil {
		batch := all[:min(gtestBatch, len(all))]
		done, err := g.batch(ctx, t, batch)
		if err != nil {
			return err
		}
		all = all[done:]
	}
	return context.Cause(ctx)
}

var (
	gtestLine = regexp.MustCompile(`^\[ *(RUN|OK|FAILED|SKIP|SKIPPED) *\] ?(.*)$`)
	gtestTook = regexp.MustCompile(` \(\d+ ms.*$`)
)

// batch runs tests in one process, and returns how many of them are reported: with a test that ends
// the process it is the last.
func (g gtest) batch(ctx context.Context, t *Turn, names []string) (done int, err error) {
	p := gtestParser{report: t.Report}
	argv := append(slices.Clone(g.argv), "--gtest_filter="+strings.Join(names, ":"))
	err = t.Site.Run(ctx, 0, Command{Dir: t.Dir, Env: g.env, Argv: argv, Silence: g.silence, OnLine: p.line})
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if p.running != "" {
		p.end(Fail, fmt.Sprintf("the process has ended (%v): %s", err, strings.Join(p.output, " ")))
	}
	if len(p.done) == 0 {
		return 0, fmt.Errorf("the program runs no test: %w: %s", err, strings.Join(p.output, " "))
	}
	// They run in the order of the program's own.
	last := slices.Index(names, p.done[len(p.done)-1])
	return max(last+1, 1), nil
}

// gtestParser reads what a program of googletest prints.
type gtestParser struct {
	report  func(Result)
	running string
	output  []string
	done    []string
}

// outputLines is how many lines of a test's output are kept.
const outputLines = 40

func (p *gtestParser) line(line string) {
	line = strings.TrimRight(line, "\n")
	m := gtestLine.FindStringSubmatch(line)
	if m == nil || m[1] != "RUN" && p.running == "" {
		if line = strings.TrimSpace(line); line != "" && len(p.output) < outputLines {
			p.output = append(p.output, line)
		}
		return
	}
	rest := gtestTook.ReplaceAllString(m[2], "")
	switch m[1] {
	case "RUN":
		p.running, p.output = strings.TrimSpace(rest), nil
		p.running, _, _ = strings.Cut(p.running, " ")
	case "OK":
		p.end(Pass, "")
	case "FAILED":
		p.end(Fail, strings.Join(p.output, " "))
	default:
		p.end(Skip, strings.Trim(rest, "()"))
	}
}

func (p *gtestParser) end(o Outcome, detail string) {
	p.report(Result{Test: p.running, Outcome: o, Detail: oneLine(detail)})
	p.done = append(p.done, p.running)
	p.running = ""
}
