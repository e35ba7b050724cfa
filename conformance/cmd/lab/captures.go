package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/captures"
	"github.com/goroce/goroce/conformance/lab"
)

// record records captures with faults, between the kernel's rdma_rxe in guests and goroce, and
// writes the table of what the analyser says of them. It fails if a scene could not be played, or a
// capture is not explained right.
//
//	go run ./conformance/cmd/lab captures -only 'lost ACK,clean' -dir /tmp/captures
//	go run ./conformance/cmd/lab captures -table
func record(t *tool, args []string) error {
	r := &recorder{logf: t.logf}
	t.StringVar(&r.dir, "dir", "conformance/captures/testdata", "folder of the captures")
	md := t.String("md", "conformance/captures/CAPTURES.md",
		"file of the table; empty: none but on the standard output")
	t.Var(&r.only, "only", "comma-separated names of scenes to record; empty means all")
	t.StringVar(&r.pairs, "pair", "", "number of the pair of peers, from 0; empty means all")
	tableOnly := t.Bool("table", false, "only make the table of what is recorded")
	timeout := t.Duration("timeout", 40*time.Minute, "limit for everything")
	if err := t.parseAlone(args); err != nil {
		return err
	}
	if !*tableOnly {
		lab.EnterWithGuests(lab.Suites, t.logf)
		ctx, stop := t.context(*timeout)
		defer stop()
		if err := r.run(ctx); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	_, wrong, err := captures.Table(&b, r.dir)
	if err == nil && *md != "" {
		err = os.WriteFile(*md, b.Bytes(), 0o644)
	}
	if err != nil {
		return err
	}
	os.Stdout.Write(b.Bytes())
	switch {
	case r.failed > 0:
		return fmt.Errorf("%d scenes could not be played", r.failed)
	case wrong > 0:
		return errFailed
	}
	return nil
}

// recorder plays scenes and keeps what is recorded.
type recorder struct {
	dir    string
	logf   func(string, ...any)
	only   list
	pairs  string
	failed int
}

func (r *recorder) run(ctx context.Context) error {
	l, err := lab.New(lab.Config{Logf: r.logf})
	if err != nil {
		return err
	}
	defer l.Close()
	bin, err := buildRoce(ctx)
	if err != nil {
		return err
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
		r.logf("%s, %s, view %d: %s %s", s.Between(), sc.Name, view, strings.Join(w.Found, ", "),
			strings.Join(w.Wrong, "; "))
	}
	return nil
}
