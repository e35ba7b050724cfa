// Command interop runs the interop matrix against the kernel's rdma_rxe in lab guests,
// prints a table and writes conformance/out/interop.json. Its exit status is 1 if
// anything failed.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

func main() {
	links := flag.String("link", strings.Join(peer.Links(), ","), "comma-separated links to run on")
	suites := flag.String("suite", strings.Join(lab.Suites, ","), "comma-separated Debian suites whose kernels to run against")
	quick := flag.Bool("quick", false, "run a subset, the same on each link")
	full := flag.String("full", "", "comma-separated links to run everything on; others run the subset of -quick; empty means all, or none with -quick")
	onVerbs := flag.Bool("verbs", false, "run Debian's programs on this project's verbs libraries, of bin/verbs, in place of its own tools")
	self := flag.Bool("self", false, "run rxe against rxe, which tests the lab itself")
	byConform := flag.Bool("conform", false, "run the groups that work with a device by the command \"roce conform\", with those that only it has: micro, drills")
	against := flag.String("against", "", "compare the rows and their results with an interop.json of another run: differences are failures")
	only := flag.String("only", "", "comma-separated groups to run: links, tools, rdmacm, cmfaults, operations, faults, errors, canaries, capture, and with -conform micro, drills; empty means all")
	onlyTool := flag.String("tool", "", "run only tools whose name or arguments contain this")
	timeout := flag.Duration("timeout", 60*time.Minute, "limit for everything")
	md := flag.String("md", "", "also write the table to this file, as Markdown")
	verbose := flag.Bool("v", false, "print each row as it comes")
	flag.Parse()
	list, err := parseLinks(*links)
	whole, errFull := fullOn(*full, *quick)
	if err = cmp.Or(err, errFull); err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "interop:", cmp.Or(err, fmt.Errorf("unexpected argument %q", flag.Arg(0))))
		os.Exit(2)
	}
	start := time.Now()
	logf := func(f string, a ...any) {
		fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(start).Seconds(), fmt.Sprintf(f, a...))
	}
	lab.Enter(func(ctx context.Context) error {
		if *onVerbs {
			if err := prepareVerbs(ctx, strings.Split(*suites, ","), logf); err != nil {
				return err
			}
		}
		return prepare(ctx, strings.Split(*suites, ","), logf)
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("not done in %v", *timeout))
	defer cancel()
	r := &runner{links: list, suites: strings.Split(*suites, ","), full: whole, self: *self, verbs: *onVerbs, only: *only, onlyTool: *onlyTool, conform: *byConform, timeout: *timeout, logf: logf, report: &matrix.Report{}}
	r.report.OnRow = func(row matrix.Row) {
		switch {
		case row.Result == matrix.Fail, row.Result == matrix.Inconclusive:
			logf("%-4s %s %s", row.Result, row.Label(), row.Detail)
		case row.Retried != "":
			logf("%-4s %s after %s", row.Result, row.Label(), firstLine(row.Retried))
		case *verbose:
			logf("%-4s %s %s", row.Result, row.Label(), firstLine(row.Detail))
		}
	}
	// What an interrupted row has seen is no result.
	context.AfterFunc(ctx, r.report.Stop)
	err = r.run(ctx)
	r.report.WriteTable(os.Stdout)
	if *against != "" && err == nil {
		err = r.compare(*against)
	}
	if e := r.writeJSON(); err == nil {
		err = e
	}
	if *md != "" && err == nil { // a run that was cut short is no table to keep
		err = r.writeMarkdown(*md)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
	}
	logf("done")
	if err != nil || r.report.Count(matrix.Fail) > 0 || r.report.Count(matrix.Pass) == 0 {
		os.Exit(1)
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// prepare makes the images. All must be there: a table with one kernel missing would look as
// good as the whole.
func prepare(ctx context.Context, suites []string, logf func(string, ...any)) error {
	images, errs := lab.Prepare(ctx, suites, logf)
	for _, s := range suites {
		if err := errs[s]; err != nil {
			return fmt.Errorf("no guest of suite %s: %w", s, err)
		}
	}
	for _, im := range images {
		logf("%s: kernel %s (%s)", im.Suite, im.Kernel, im.Version)
	}
	return nil
}

// parseLinks makes the list of links from the option.
func parseLinks(s string) ([]string, error) {
	links := strings.Split(s, ",")
	for _, name := range links {
		if err := peer.CheckLink(name); err != nil {
			return nil, err
		}
	}
	return links, nil
}

// fullOn makes a predicate of the links to run everything on from the options.
func fullOn(full string, quick bool) (func(link string) bool, error) {
	if full == "" {
		return func(string) bool { return !quick }, nil
	}
	if quick {
		return nil, errors.New("-quick runs everything on no link, and -full on some")
	}
	list, err := parseLinks(full)
	return func(link string) bool { return slices.Contains(list, link) }, err
}

// fullLinks are the links that everything is run on.
func (r *runner) fullLinks() []string {
	return slices.DeleteFunc(slices.Clone(r.links), func(link string) bool { return !r.full(link) })
}

// subsetLinks are the others.
func (r *runner) subsetLinks() []string {
	return slices.DeleteFunc(slices.Clone(r.links), r.full)
}

func (r *runner) writeJSON() error {
	out, err := lab.OutDir()
	if err != nil {
		return err
	}
	return r.report.WriteJSON(filepath.Join(out, "interop.json"))
}

// writeMarkdown writes the table as a page of documentation.
func (r *runner) writeMarkdown(path string) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, "# "+r.title())
	subset := r.subsetLinks()
	fmt.Fprintf(&b, "\nMade by `go run ./conformance/cmd/interop -md conformance/RESULTS.md`, on the links %s", strings.Join(r.links, ", "))
	if len(subset) > 0 {
		fmt.Fprintf(&b, ", of which %s ran a subset", strings.Join(subset, ", "))
	}
	fmt.Fprintln(&b, ".")
	fmt.Fprintln(&b, "The role is goroce's; numbers count the variants (sizes, path MTUs, address families, packets hit)")
	fmt.Fprintln(&b, "of a line, and are those of each link: where links differ, the line says how. Each row by itself is in")
	fmt.Fprintln(&b, "`conformance/out/interop.json` after a run.")
	fmt.Fprintln(&b)
	for _, s := range r.suites {
		if im, err := lab.OpenImage(s); err == nil {
			fmt.Fprintf(&b, "- %s: Debian %s, kernel %s, with that suite's rdma-core and perftest\n", im.KernelMajorMinor(), im.Suite, im.Version)
		}
	}
	fmt.Fprintln(&b, "\n```")
	r.report.WriteTable(&b)
	fmt.Fprintln(&b, "```")
	return os.WriteFile(path, b.Bytes(), 0o644)
}
