// Command interop runs the interop matrix against the kernel's rdma_rxe in lab guests,
// prints a table and writes conformance/out/interop.json. Its exit status is 1 if
// anything failed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

func main() {
	full := flag.Bool("full", false, "run the whole matrix, not a subset")
	only := flag.String("only", "", "comma-separated groups to run: operations, faults, errors, tools; empty means all")
	timeout := flag.Duration("timeout", 60*time.Minute, "limit for everything")
	verbose := flag.Bool("v", false, "print each row as it comes")
	flag.Parse()
	start := time.Now()
	logf := func(f string, a ...any) {
		fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(start).Seconds(), fmt.Sprintf(f, a...))
	}
	lab.Enter(func(ctx context.Context) error { return prepare(ctx, logf) })
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	r := &runner{full: *full, only: *only, logf: logf, report: &matrix.Report{}}
	r.report.OnRow = func(row matrix.Row) {
		if *verbose || row.Result == matrix.Fail {
			logf("%-4s %s %s", row.Result, row.Label(), firstLine(row.Detail))
		}
	}
	err := r.run(ctx)
	r.report.WriteTable(os.Stdout)
	if e := r.writeJSON(); err == nil {
		err = e
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

type runner struct {
	full   bool
	only   string
	logf   func(string, ...any)
	report *matrix.Report
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

func (r *runner) run(ctx context.Context) error {
	l, err := lab.New(lab.Config{Logf: r.logf})
	if err != nil {
		return err
	}
	defer l.Close()
	var peers []*peer.RXE
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range lab.Suites {
		im, err := lab.OpenImage(s)
		if err != nil {
			if s == lab.Suites[0] {
				return err
			}
			continue
		}
		wg.Go(func() {
			p, e := boot(ctx, l, im)
			mu.Lock()
			defer mu.Unlock()
			if e != nil {
				err = e
				return
			}
			peers = append(peers, p)
		})
	}
	wg.Wait()
	if err != nil {
		return err
	}
	if len(peers) < 2 {
		return fmt.Errorf("the run of rxe against rxe needs two guests")
	}
	return r.self(ctx, l, peers)
}

func boot(ctx context.Context, l *lab.Lab, im *lab.Image) (*peer.RXE, error) {
	g, err := l.Boot(ctx, lab.GuestConfig{Name: im.Suite, Image: im})
	if err != nil {
		return nil, err
	}
	return peer.NewRXE(ctx, g)
}

// self runs the matrix between two guests: what fails there is the lab's fault or a
// known trait of rxe, not this module's.
func (r *runner) self(ctx context.Context, l *lab.Lab, peers []*peer.RXE) error {
	env := &matrix.Env{Wire: l.Wire, Report: r.report, Kernel: peers[1].Name() + " with " + peers[0].Name(), Subject: peers[1], Ref: peers[0], Full: r.full}
	for _, g := range []struct {
		name string
		run  func(context.Context) error
	}{{"operations", env.Operations}, {"faults", env.Faults}, {"errors", env.Errors}} {
		if !r.wants(g.name) {
			continue
		}
		start := time.Now()
		if err := g.run(ctx); err != nil {
			return err
		}
		r.logf("%s: %s took %.1fs", env.Kernel, g.name, time.Since(start).Seconds())
	}
	return nil
}
