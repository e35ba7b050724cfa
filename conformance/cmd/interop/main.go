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
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

func main() {
	links := flag.String("link", "udp,packet", "comma-separated links to run on: "+strings.Join(peer.Links(), ", "))
	full := flag.String("full", "first", "links on which everything is run, and not a subset: first, all or none")
	self := flag.Bool("self", false, "run rxe against rxe, which tests the lab itself")
	only := flag.String("only", "", "comma-separated groups to run: tools, rdmacm, cmfaults, operations, faults, errors, canaries, capture; empty means all")
	onlyTool := flag.String("tool", "", "run only tools whose name or arguments contain this")
	timeout := flag.Duration("timeout", 60*time.Minute, "limit for everything")
	md := flag.String("md", "", "also write the table to this file, as Markdown")
	verbose := flag.Bool("v", false, "print each row as it comes")
	flag.Parse()
	runs, err := parseRuns(*links, *full)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "interop:", cmp.Or(err, fmt.Errorf("unexpected argument %q", flag.Arg(0))))
		os.Exit(2)
	}
	start := time.Now()
	logf := func(f string, a ...any) {
		fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(start).Seconds(), fmt.Sprintf(f, a...))
	}
	lab.Enter(func(ctx context.Context) error { return prepare(ctx, logf) })
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	r := &runner{runs: runs, self: *self, only: *only, onlyTool: *onlyTool, logf: logf, report: &matrix.Report{}}
	r.report.OnRow = func(row matrix.Row) {
		if *verbose || row.Result == matrix.Fail {
			logf("%-4s %s %s", row.Result, row.Label(), firstLine(row.Detail))
		}
	}
	err = r.run(ctx)
	r.report.WriteTable(os.Stdout)
	if e := r.writeJSON(); err == nil {
		err = e
	}
	if *md != "" {
		if e := r.writeMarkdown(*md); err == nil {
			err = e
		}
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

// prepare makes the images. The first suite must be there; a newer one may be missing,
// which is said.
func prepare(ctx context.Context, logf func(string, ...any)) error {
	images, errs := lab.Prepare(ctx, lab.Suites, logf)
	for s, err := range errs {
		if s == lab.Suites[0] {
			return err
		}
		logf("no guest of suite %s: %v", s, err)
	}
	for _, im := range images {
		logf("%s: kernel %s (%s)", im.Suite, im.Kernel, im.Version)
	}
	return nil
}

// linkRun is one run of the matrix.
type linkRun struct {
	link string
	full bool
}

// parseRuns makes the runs from the options.
func parseRuns(links, full string) ([]linkRun, error) {
	if !slices.Contains([]string{"first", "all", "none"}, full) {
		return nil, fmt.Errorf("-full is first, all or none, not %q", full)
	}
	var runs []linkRun
	for i, name := range strings.Split(links, ",") {
		if err := peer.CheckLink(name); err != nil {
			return nil, err
		}
		runs = append(runs, linkRun{link: name, full: full == "all" || full == "first" && i == 0})
	}
	return runs, nil
}

type runner struct {
	runs     []linkRun
	self     bool
	only     string
	onlyTool string
	logf     func(string, ...any)
	report   *matrix.Report
	// exclusive is held by a run on a link that two devices cannot share.
	exclusive sync.Mutex
}

func (r *runner) wants(group string) bool {
	return r.only == "" || strings.Contains(","+r.only+",", ","+group+",")
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
	fmt.Fprintln(&b, "# goroce against the kernel's rdma_rxe")
	fmt.Fprintln(&b, "\nMade by `go run ./conformance/cmd/interop -md conformance/RESULTS.md`. The role is goroce's;")
	fmt.Fprintln(&b, "numbers count the variants (sizes, path MTUs, address families, packets hit) of a line.")
	fmt.Fprintln(&b, "What is skipped, and why, is in `conformance/out/interop.json`.")
	fmt.Fprintln(&b)
	for _, s := range lab.Suites {
		if im, err := lab.OpenImage(s); err == nil {
			fmt.Fprintf(&b, "- %s: Debian %s, kernel %s, with that suite's rdma-core and perftest\n", im.KernelMajorMinor(), im.Suite, im.Version)
		}
	}
	fmt.Fprintln(&b, "\n```")
	r.report.WriteTable(&b)
	fmt.Fprintln(&b, "```")
	return os.WriteFile(path, b.Bytes(), 0o644)
}

func (r *runner) run(ctx context.Context) error {
	l, err := lab.New(lab.Config{Logf: r.logf})
	if err != nil {
		return err
	}
	defer l.Close()
	peers, err := r.boot(ctx, l)
	if err != nil {
		return err
	}
	if r.self {
		if len(peers) < 2 {
			return errors.New("rxe against rxe needs two guests")
		}
		err = r.rxeAgainstRXE(ctx, l, peers[1], peers[0])
	} else {
		err = r.goroceAgainst(ctx, l, peers)
	}
	if e := r.checkGuests(ctx, peers); err == nil {
		err = e
	}
	return err
}

// boot boots a guest of each suite whose image is there.
func (r *runner) boot(ctx context.Context, l *lab.Lab) ([]*peer.RXE, error) {
	peers := make([]*peer.RXE, len(lab.Suites))
	errs := make([]error, len(lab.Suites))
	var wg sync.WaitGroup
	for i, s := range lab.Suites {
		im, err := lab.OpenImage(s)
		if err != nil {
			if i == 0 {
				return nil, err
			}
			continue // prepare has said why
		}
		wg.Go(func() {
			g, err := l.Boot(ctx, lab.GuestConfig{Name: im.Suite, Image: im})
			if err != nil {
				errs[i] = err
				return
			}
			peers[i], errs[i] = peer.NewRXE(ctx, g)
		})
	}
	wg.Wait()
	return slices.DeleteFunc(peers, func(p *peer.RXE) bool { return p == nil }), errors.Join(errs...)
}

// checkGuests makes a guest's kernel complaint a failure.
func (r *runner) checkGuests(ctx context.Context, peers []*peer.RXE) error {
	for _, p := range peers {
		row := matrix.Row{Kernel: kernelOf(p), Group: "guests", Op: "kernel log", Role: "responder", Link: p.Link(), Result: matrix.Pass}
		bad, err := p.Guest().KernelTrouble(ctx)
		if err != nil {
			return err
		}
		if bad != "" {
			row.Result, row.Detail = matrix.Fail, bad
		}
		r.report.Add(row)
	}
	return nil
}

func kernelOf(p *peer.RXE) string { return strings.TrimPrefix(p.Name(), "rxe ") }

// goroceAgainst runs this module's stack against each guest, side by side. Each run has a
// device and addresses of its own, and others for the command-line tools.
func (r *runner) goroceAgainst(ctx context.Context, l *lab.Lab, peers []*peer.RXE) error {
	bin, err := r.buildRoce(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(peers))
	var wg sync.WaitGroup
	for i, p := range peers {
		wg.Go(func() { errs[i] = r.goroceWith(ctx, l, p, bin, i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// goroceWith runs link after link against a guest, so that on each link the addresses are
// the same.
func (r *runner) goroceWith(ctx context.Context, l *lab.Lab, p *peer.RXE, bin string, i int) error {
	var place [2]struct{ a4, a6 netip.Addr }
	for j := range place {
		n := 1 + 2*i + j
		place[j].a4 = netip.MustParseAddr(fmt.Sprintf("%s%d", lab.Net4, n))
		place[j].a6 = netip.MustParseAddr(fmt.Sprintf("%s%d", lab.Net6, n))
		for _, a := range []string{place[j].a4.String() + "/24", place[j].a6.String() + "/64"} {
			if err := l.AddHostAddr(a); err != nil {
				return err
			}
		}
	}
	for _, run := range r.runs {
		at := peer.GorocePlace{Addr4: place[0].a4, Addr6: place[0].a6, PortName: lab.HostDev, Link: run.link, RxeFlush: true}
		local := matrix.LocalHost{Lab: l, Bin: bin, Addr4: place[1].a4, Addr6: place[1].a6, Link: run.link}
		if err := r.goroceOn(ctx, l, p, run, at, local, i); err != nil {
			return fmt.Errorf("%s link: %w", run.link, err)
		}
	}
	return nil
}

func (r *runner) goroceOn(ctx context.Context, l *lab.Lab, p *peer.RXE, run linkRun, at peer.GorocePlace, local matrix.LocalHost, i int) error {
	if peer.Exclusive(run.link) {
		r.exclusive.Lock()
		defer r.exclusive.Unlock()
	}
	dev, err := peer.NewGoroce(at)
	if err != nil {
		return err
	}
	env := &matrix.Env{
		Wire: l.Wire, Report: r.report, Kernel: kernelOf(p), Subject: dev, Ref: p, Full: run.full, OnlyTool: r.onlyTool,
		FirstPort: matrix.DefaultPort + i*matrix.PortRange,
	}
	err = r.groups(ctx, env, deviceGroups(env, matrix.GuestHost{P: p}))
	if e := dev.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	// The tools have devices of their own.
	return r.groups(ctx, env, toolGroups(env, local, matrix.GuestHost{P: p}))
}

// rxeAgainstRXE runs the matrix between two guests: what fails there is the lab's fault or
// a trait of rxe, not this module's.
func (r *runner) rxeAgainstRXE(ctx context.Context, l *lab.Lab, a, b *peer.RXE) error {
	env := &matrix.Env{Wire: l.Wire, Report: r.report, Kernel: a.Name() + " with " + b.Name(), Subject: a, Ref: b, Full: r.runs[0].full, OnlyTool: r.onlyTool, FirstPort: matrix.DefaultPort}
	return r.groups(ctx, env, append(deviceGroups(env, matrix.GuestHost{P: b}), toolGroups(env, matrix.GuestHost{P: a}, matrix.GuestHost{P: b})...))
}

// group is a group of checks.
type group struct {
	name string
	run  func(context.Context) error
}

// deviceGroups are the groups that work with the peers of env; ref is where the programs of
// the other side run.
func deviceGroups(env *matrix.Env, ref matrix.Host) []group {
	capture := func(ctx context.Context) error {
		out, err := lab.OutDir()
		if err != nil {
			return err
		}
		return env.Capture(ctx, filepath.Join(out, "capture-"+strings.ReplaceAll(env.Kernel, " ", "-")+"-"+env.Subject.Link()+".pcap"))
	}
	limits := func(ctx context.Context) error { return env.CMLimits(ctx, ref) }
	return []group{{"cmfaults", limits}, {"operations", env.Operations}, {"faults", env.Faults}, {"errors", env.Errors}, {"canaries", env.Canaries}, {"capture", capture}}
}

// toolGroups are the groups that run command-line tools on the hosts.
func toolGroups(env *matrix.Env, subject, ref matrix.Host) []group {
	return []group{
		{"tools", func(ctx context.Context) error { return env.Tools(ctx, subject, ref) }},
		{"rdmacm", func(ctx context.Context) error { return env.CMTools(ctx, subject, ref) }},
		{"cmfaults", func(ctx context.Context) error { return env.CMFaults(ctx, subject, ref) }},
	}
}

// groups runs those of the groups that were asked for.
func (r *runner) groups(ctx context.Context, env *matrix.Env, list []group) error {
	for _, g := range list {
		if !r.wants(g.name) {
			continue
		}
		start := time.Now()
		if err := g.run(ctx); err != nil {
			return fmt.Errorf("%s: %s: %w", env.Kernel, g.name, err)
		}
		r.logf("%s, %s link: %s took %.1fs", env.Kernel, env.Subject.Link(), g.name, time.Since(start).Seconds())
	}
	return nil
}

// buildRoce compiles the command-line tools.
func (r *runner) buildRoce(ctx context.Context) (string, error) {
	if !r.wants("tools") && !r.wants("rdmacm") && !r.wants("cmfaults") {
		return "", nil
	}
	cache, err := lab.CacheDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(cache, "roce")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/goroce/goroce/cmd/roce").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building cmd/roce: %w: %s", err, out)
	}
	return bin, nil
}
