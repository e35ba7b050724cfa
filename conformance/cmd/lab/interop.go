package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

// interop runs the matrix against the kernel's rdma_rxe in guests, prints a table and writes
// conformance/out/interop.json.
func interop(t *tool, args []string) error {
	r := &runner{links: peer.Links(), logf: t.logf, report: new(matrix.Report)}
	t.Var((*list)(&r.links), "link",
		"comma-separated links to run on, each alone or with a suite, as in xdp:trixie: then only against that suite's kernel")
	suites := t.suites(lab.Suites, "Debian suites whose kernels to run against")
	quick := t.Bool("quick", false, "run a subset, the same on each link")
	full := t.String("full", "",
		"comma-separated links to run everything on, each alone or with a suite, as in udp:trixie; others run the subset of -quick; empty means all, or none with -quick")
	t.BoolVar(&r.verbs, "verbs", false,
		"run Debian's programs on this project's verbs libraries, of bin/verbs, in place of its own tools")
	t.BoolVar(&r.self, "self", false, "run rxe against rxe, which tests the lab itself")
	t.BoolVar(&r.conform, "conform", false,
		"run the groups that work with a device by the command \"roce conform\", with those that only it has: micro, drills")
	against := t.String("against", "",
		"compare the rows and their results with an interop.json of another run: differences are failures")
	t.StringVar(&r.only, "only", "",
		"comma-separated groups to run: links, tools, rdmacm, cmfaults, operations, faults, errors, canaries, capture, and with -conform micro, drills; empty means all")
	t.StringVar(&r.onlyTool, "tool", "", "run only tools whose name or arguments contain this")
	t.DurationVar(&r.timeout, "timeout", 60*time.Minute, "limit for everything")
	md := t.String("md", "", "also write the table to this file, as Markdown")
	verbose := t.Bool("v", false, "print each row as it comes")
	if err := t.parseAlone(args); err != nil {
		return err
	}
	r.suites = *suites
	var err error
	if r.full, err = fullOn(*full, *quick, r.suites); err == nil {
		err = checkPlaces("-link", r.links, r.suites)
	}
	if err != nil {
		return usageError{err}
	}
	lab.Enter(func(ctx context.Context) error {
		if r.verbs {
			if err := prepareVerbs(ctx, r.suites, t.logf); err != nil {
				return err
			}
		}
		return prepareGuests(ctx, r.suites, t.logf)
	})
	ctx, stop := t.context(r.timeout)
	defer stop()
	r.report.OnRow = func(row matrix.Row) {
		switch {
		case row.Result == matrix.Fail, row.Result == matrix.Inconclusive:
			t.logf("%-4s %s %s", row.Result, row.Label(), row.Detail)
		case row.Retried != "":
			t.logf("%-4s %s after %s", row.Result, row.Label(), firstLine(row.Retried))
		case *verbose:
			t.logf("%-4s %s %s", row.Result, row.Label(), firstLine(row.Detail))
		}
	}
	// What an interrupted row has seen is no result.
	context.AfterFunc(ctx, r.report.Stop)
	err = r.run(ctx)
	r.report.WriteTable(os.Stdout)
	if *against != "" && err == nil {
		err = r.compare(*against)
	}
	err = cmp.Or(err, r.writeJSON())
	if *md != "" && err == nil { // a run that was cut short is no table to keep
		err = r.writeMarkdown(*md)
	}
	if err == nil && (r.report.Count(matrix.Fail) > 0 || r.report.Count(matrix.Pass) == 0) {
		err = errFailed
	}
	return err
}

func firstLine(s string) string {
	return strings.SplitN(s, "\n", 2)[0]
}

// prepareGuests makes the images. All must be there: a table with one kernel missing would look as
// good as the whole.
func prepareGuests(ctx context.Context, suites []string, logf func(string, ...any)) error {
	images, errs := lab.Prepare(ctx, suites, logf)
	for _, s := range suites {
		if errs[s] != nil {
			return fmt.Errorf("no guest of suite %s: %w", s, errs[s])
		}
	}
	for _, im := range images {
		logf("%s: kernel %s (%s)", im.Suite, im.Kernel, im.Version)
	}
	return nil
}

// checkPlaces fails if one of an option's places is no link, or no link with one of the suites, as
// in udp:trixie.
func checkPlaces(option string, places, suites []string) error {
	for _, at := range places {
		link, suite, one := strings.Cut(at, ":")
		if err := peer.CheckLink(link); err != nil {
			return err
		}
		if one && !slices.Contains(suites, suite) {
			return fmt.Errorf("%s %s: the suites of this run are %s", option, at, strings.Join(suites, ", "))
		}
	}
	return nil
}

// isAmong reports whether a link with a suite is one of the places.
func isAmong(places []string, link, suite string) bool {
	return slices.Contains(places, link) || slices.Contains(places, link+":"+suite)
}

// fullOn makes a predicate of the links, and the suites on them, to run everything on from the
// options.
func fullOn(full string, quick bool, suites []string) (func(link, suite string) bool, error) {
	if full == "" {
		return func(string, string) bool { return !quick }, nil
	}
	if quick {
		return nil, errors.New("-quick runs everything on no link, and -full on some")
	}
	at := strings.Split(full, ",")
	return func(link, suite string) bool { return isAmong(at, link, suite) }, checkPlaces("-full", at, suites)
}

// linksTo returns the links to run on against a suite's kernel.
func (r *runner) linksTo(suite string) (names []string) {
	for _, at := range r.links {
		if name, _, _ := strings.Cut(at, ":"); isAmong(r.links, name, suite) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// split parts the links into those that everything is run on against a suite's kernel, and those
// that run the subset.
func (r *runner) split(suite string) (full, subset []string) {
	for _, link := range r.linksTo(suite) {
		if r.full(link, suite) {
			full = append(full, link)
		} else {
			subset = append(subset, link)
		}
	}
	return full, subset
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
	fmt.Fprintf(&b, "\nMade by `go run ./conformance/cmd/lab interop -md conformance/RESULTS.md`, on the links %s",
		strings.Join(r.links, ", "))
	for _, suite := range r.suites {
		if _, subset := r.split(suite); len(subset) > 0 {
			fmt.Fprintf(&b, ", of which %s ran a subset against %s's kernel", strings.Join(subset, ", "), suite)
		}
	}
	fmt.Fprintln(&b,
		".\nThe role is goroce's; numbers count the variants (sizes, path MTUs, address families, packets hit)")
	fmt.Fprintln(&b,
		"of a line, and are those of each link: where links differ, the line says how. Each row by itself is in")
	fmt.Fprint(&b, "`conformance/out/interop.json` after a run.\n\n")
	for _, s := range r.suites {
		if im, err := lab.OpenImage(s); err == nil {
			fmt.Fprintf(&b, "- %s: Debian %s, kernel %s, with that suite's rdma-core and perftest\n",
				im.KernelMajorMinor(), im.Suite, im.Version)
		}
	}
	fmt.Fprintln(&b, "\n```")
	r.report.WriteTable(&b)
	fmt.Fprintln(&b, "```")
	return os.WriteFile(path, b.Bytes(), 0o644)
}
