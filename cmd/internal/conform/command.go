package conform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/goroce/goroce/cmd/internal/explain"
	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/conformance/conform"
	"github.com/goroce/goroce/conformance/matrix"
)

// Exit statuses, besides 0: every row passed or was skipped.
const (
	exitFailed = 1 // a row failed
	exitNoRun  = 2 // wrong options, no agent, no device; or a run that ended early without a failure
)

// Command returns the subcommand.
func Command() tool.Command {
	return tool.Command{Name: "conform",
		Summary: "how another RoCE v2 implementation keeps to the specification: a card, rxe, another goroce", Run: run}
}

const usage = `conform: runs some thousands of checks between goroce, here, and a peer that runs a verbs agent

Usage:
  roce conform --self [options]                        against another process here: needs no root
  roce conform --agent HOST:PORT [options]             against the RDMA device of another machine
  roce conform --agent HOST:PORT,HOST2:PORT [options]  the devices of two others against each other
                       --cable IF,IF                 with this machine as the cable between them
  roce conform --list [options]                        the rows, and what each rests on
  roce conform --self --drill my.drill                 a packet script of your own (docs/drills.md)
  roce conform --merge --html FILE A.json B.json       one report of several runs
  roce conform agent [options]                         be the agent, with goroce: "roce conform agent -h"

The other machine runs verbsd ("make agent" builds it), or "roce conform agent". docs/conform.md says how.

Exit status: 0 every row passed, was skipped or is inconclusive; 1 a row failed; 2 no row failed, but the run could not begin
or ended early: wrong options, no agent, interrupted, out of time.

Options:
`

func run(ctx context.Context, env *tool.Env, args []string) error {
	if len(args) > 0 && args[0] == "agent" {
		return runAgent(ctx, env, args[1:])
	}
	o := defaults()
	operands, err := tool.Parse(usage, o.table(), args)
	switch {
	case err != nil:
		return err
	case o.merge:
		return o.mergeFiles(env, operands)
	case len(operands) > 0:
		return getopt.Misuse("unexpected argument %q", operands[0])
	}
	c, err := o.conform()
	if misuse := (*getopt.Error)(nil); err != nil && !errors.As(err, &misuse) {
		fmt.Fprintf(env.Stderr, "roce conform: %v\n", err)
		return &tool.Exit{Status: exitNoRun}
	}
	if err != nil {
		return err
	}
	if o.list {
		return list(env.Stdout, c)
	}
	return o.run(ctx, env, c)
}

// list prints the rows, one a line, with what they rest on.
func list(w io.Writer, c conform.Options) error {
	rows, err := conform.List(c)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := fmt.Fprintf(w, "%s\t%s\n", row.Label(), row.Authority); err != nil {
			return err
		}
	}
	return nil
}

// run runs the rows, and says how they ended.
func (o *options) run(ctx context.Context, env *tool.Env, c conform.Options) error {
	shared := *env // what the other process says is written beside what this one does
	shared.Stderr = &locked{w: env.Stderr}
	env = &shared
	fail := func(err error) error {
		fmt.Fprintf(env.Stderr, "roce conform: %v\n", err)
		return &tool.Exit{Status: exitNoRun}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done in %v", o.timeout))
	defer cancel()
	if o.self {
		agent, end, err := startSelf(ctx, env, o.link, o.answer)
		if err != nil {
			return fail(err)
		}
		defer end()
		c.Agents, c.Addrs = append(c.Agents, agent.AgentServer), agent.local
	}
	start := time.Now()
	c.Logf = func(format string, args ...any) {
		fmt.Fprintf(env.Stderr, "[%6.1fs] %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
	c.OnRow = func(row matrix.Row) {
		if row.Result == matrix.Fail || row.Result == matrix.Inconclusive || o.verbose {
			first, _, _ := strings.Cut(row.Detail, "\n")
			c.Logf("%-4s %s %s", row.Result, row.Label(), first)
		}
	}
	c.Explain = explain.Write
	res, err := conform.Run(ctx, c)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fail(err)
	}
	if err := o.write(env.Stdout, res); err != nil {
		return fail(err)
	}
	o.sayNext(env.Stderr, res)
	failed, passed := res.Report.Count(matrix.Fail), res.Report.Count(matrix.Pass)
	switch {
	case res.Cut != nil:
		fmt.Fprintf(env.Stderr, "roce conform: the run has ended early: %v\n", res.Cut)
	case failed == 0 && passed == 0:
		res.Cut = errors.New("no row was run")
		if res.Report.Count(matrix.Inconclusive) > 0 {
			res.Cut = errors.New("no row passed or failed: all are inconclusive")
		}
		fmt.Fprintf(env.Stderr, "roce conform: %v\n", res.Cut)
	}
	switch {
	case failed > 0:
		return &tool.Exit{Status: exitFailed}
	case res.Cut != nil:
		return &tool.Exit{Status: exitNoRun}
	}
	return nil
}

// write writes the table, and the files that were asked for.
func (o *options) write(stdout io.Writer, res *conform.Result) error {
	doc := res.Document()
	var errs []error
	for _, f := range []struct {
		path  string
		write func(io.Writer) error
	}{{o.junit, res.WriteJUnit}, {o.json, doc.WriteJSON}} {
		if f.path != "" {
			errs = append(errs, conform.WriteFile(f.path, stdout, f.write))
		}
	}
	errs = append(errs, o.report(stdout, doc))
	errs = append(errs, doc.WriteFeatures(stdout))
	res.Report.WriteTable(stdout)
	return errors.Join(errs...)
}

// report writes the reports that were asked for.
func (o *options) report(stdout io.Writer, docs ...*conform.Document) error {
	var errs []error
	if o.html != "" {
		errs = append(errs,
			conform.WriteFile(o.html, stdout, func(w io.Writer) error { return conform.WriteHTML(w, docs...) }))
	}
	if o.md != "" {
		errs = append(errs,
			conform.WriteFile(o.md, stdout, func(w io.Writer) error { return conform.WriteMarkdown(w, docs...) }))
	}
	return errors.Join(errs...)
}

// sayNext says what to do about failures.
func (o *options) sayNext(w io.Writer, res *conform.Result) {
	if s := res.Document().Warning(); s != "" {
		fmt.Fprintf(w, "roce conform: %s\n", s)
	}
	if res.Report.Count(matrix.Fail) == 0 {
		return
	}
	var hints []string
	if o.html == "" && o.md == "" {
		hints = append(hints, "--html FILE makes a report to hand on")
	}
	if o.pcapDir == "" {
		hints = append(hints, "--pcap-dir DIR keeps the packets")
	}
	if len(hints) > 0 {
		fmt.Fprintf(w, "roce conform: rows have failed: the peer, goroce or the expectation is wrong; %s\n",
			strings.Join(hints, ", "))
	}
}

// mergeFiles makes one report of several runs.
func (o *options) mergeFiles(env *tool.Env, files []string) error {
	switch {
	case len(files) == 0:
		return getopt.Misuse("--merge: which JSON files?")
	case o.html == "" && o.md == "":
		return getopt.Misuse("--merge needs --html FILE or --md FILE (- is standard output)")
	}
	var docs []*conform.Document
	var errs []error
	for _, name := range files {
		d, err := readFile(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("--merge: %s: %w", name, err))
			continue
		}
		docs = append(docs, d)
	}
	if len(errs) == 0 {
		errs = append(errs, o.report(env.Stdout, docs...))
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintf(env.Stderr, "roce conform: %v\n", err)
		return &tool.Exit{Status: exitNoRun}
	}
	return nil
}

func readFile(name string) (*conform.Document, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return conform.ReadDocument(f)
}
