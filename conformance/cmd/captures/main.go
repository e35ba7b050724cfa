// Command captures records captures with faults, between the kernel's rdma_rxe in lab guests and goroce, and
// writes the table of what the analyser says of them. Its exit status is 1 if a scene could not be
// played, or a capture is not explained right.
//
//	go run ./conformance/cmd/captures
//	go run ./conformance/cmd/captures -only 'lost ACK,clean' -dir /tmp/captures
//	go run ./conformance/cmd/captures -table
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/conformance/captures"
	"github.com/goroce/goroce/conformance/lab"
)

func main() {
	dir := flag.String("dir", "conformance/captures/testdata", "folder of the captures")
	md := flag.String("md", "conformance/captures/CAPTURES.md", "file of the table; empty: none but on the standard output")
	only := flag.String("only", "", "comma-separated names of scenes to record; empty means all")
	pairs := flag.String("pair", "", "number of the pair of peers, from 0; empty means all")
	tableOnly := flag.Bool("table", false, "only make the table of what is recorded")
	timeout := flag.Duration("timeout", 40*time.Minute, "limit for everything")
	flag.Parse()
	if !*tableOnly {
		start := time.Now()
		logf := func(f string, a ...any) {
			fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(start).Seconds(), fmt.Sprintf(f, a...))
		}
		r := &recorder{dir: *dir, logf: logf, pairs: *pairs}
		if *only != "" {
			r.only = strings.Split(*only, ",")
		}
		lab.EnterWithGuests(lab.Suites, logf)
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		ctx, cancel := context.WithTimeoutCause(ctx, *timeout, fmt.Errorf("not done in %v", *timeout))
		defer cancel()
		if err := r.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "captures:", err)
			os.Exit(1)
		}
		if r.failed > 0 {
			fmt.Fprintf(os.Stderr, "captures: %d scenes could not be played\n", r.failed)
			defer os.Exit(1)
		}
	}
	var b bytes.Buffer
	_, wrong, err := captures.Table(&b, *dir)
	if err == nil && *md != "" {
		err = os.WriteFile(*md, b.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "captures:", err)
		os.Exit(1)
	}
	os.Stdout.Write(b.Bytes())
	if wrong > 0 {
		os.Exit(1)
	}
}

// recorder plays scenes and keeps what is recorded.
type recorder struct {
	dir    string
	logf   func(string, ...any)
	only   []string
	pairs  string
	failed int
}

func (r *recorder) run(ctx context.Context) error {
	l, err := lab.New(lab.Config{Logf: r.logf})
	if err != nil {
		return err
	}
	defer l.Close()
	out, err := lab.OutDir()
	if err != nil {
		return err
	}
	bin := filepath.Join(out, "roce")
	if b, err := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", bin, "github.com/goroce/goroce/cmd/roce").CombinedOutput(); err != nil {
		return fmt.Errorf("building cmd/roce: %w: %s", err, b)
	}
	guests, err := captures.Boot(ctx, l, lab.Suites)
	if err != nil {
		return err
	}
	for i, pair := range captures.Pairs {
		if r.pairs != "" && r.pairs != fmt.Sprint(i) {
			continue
		}
		s, err := captures.NewStage(l, guests, pair, bin)
		if err != nil {
			return err
		}
		for _, sc := range captures.Scenes() {
			if r.only != nil && !slices.Contains(r.only, sc.Name) || s.Lacks(&sc) != "" {
				continue
			}
			if err := r.record(ctx, s, &sc); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.failed++
				r.logf("FAIL %v", err)
			}
		}
	}
	for _, g := range guests {
		if bad, err := g.Guest().KernelTrouble(ctx); err != nil {
			return fmt.Errorf("%s: %w", g.Name(), err)
		} else if len(bad) > 0 {
			return fmt.Errorf("%s: its kernel complains: %v", g.Name(), bad)
		}
	}
	return nil
}

// record plays a scene, keeps its captures, and says what the analyser makes of them.
func (r *recorder) record(ctx context.Context, s *captures.Stage, sc *captures.Scene) error {
	rec, v, err := s.Record(ctx, sc)
	if err != nil {
		return err
	}
	if err := rec.Save(r.dir, v); err != nil {
		return err
	}
	for view := range 2 {
		w, err := rec.Explain(r.dir, view)
		if err != nil {
			return err
		}
		r.logf("%s, %s, view %d: %s %s", s.Between(), sc.Name, view, strings.Join(w.Found, ", "), strings.Join(w.Wrong, "; "))
	}
	return nil
}
