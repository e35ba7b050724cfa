package programs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Where both sides of a case are.
const (
	twoAddresses = "two addresses"
	oneAddress   = "one address"
)

// Runner runs cases on stages.
type Runner struct {
	Stages []*Stage
	Groups []string // empty: all
	Quick  bool
	Smoke  bool   // the shortest run; Groups and Quick do not count
	Only   string // part of the name of the cases to run
	Jobs   int    // how many run side by side
	Again  int    // how often a case that fails is tried again
	// Options are for "roce run" and this project's tools: --link and the like.
	Options []string
	Report  *Report
}

// job is a case on a stage.
type job struct {
	stage *Stage
	c     Case
	where string
}

// Run runs all cases. Those that fail are in the report; an error says that they could not be run.
func (r *Runner) Run(ctx context.Context) error {
	var jobs []job
	cases := Cases(r.Groups, r.Quick)
	if r.Smoke {
		cases = Smoke()
	}
	for _, s := range r.Stages {
		for _, c := range cases {
			if !strings.Contains(c.name(), r.Only) || c.Suites != nil && !slices.Contains(c.Suites, s.Suite) {
				continue
			}
			jobs = append(jobs, job{s, c, twoAddresses})
			if c.OneAddress && !r.Quick && !r.Smoke {
				jobs = append(jobs, job{s, c, oneAddress})
			}
		}
	}
	queue := make(chan job)
	errs := make([]error, max(r.Jobs, 1))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for j := range queue {
				errs[i] = cmp.Or(errs[i], r.runJob(ctx, j))
			}
		})
	}
	for _, j := range jobs {
		if ctx.Err() != nil {
			break
		}
		queue <- j
	}
	close(queue)
	wg.Wait()
	if !r.Smoke && len(r.Groups) == 0 || slices.Contains(r.Groups, groupPyverbs) {
		for _, s := range r.Stages {
			errs = append(errs, r.pyverbs(ctx, s))
		}
	}
	return errors.Join(append(errs, context.Cause(ctx))...)
}

func (r *Runner) runJob(ctx context.Context, j job) error {
	row := Row{Suite: j.stage.Suite, Group: j.c.Group, Program: j.c.Program, Label: j.c.Label,
		Where: j.where, Result: Pass}
	for _, argv := range [][]string{j.c.Client, j.c.Server} {
		if argv != nil && !j.stage.Has(argv[0]) {
			row.Result, row.Detail = Skip, "not in this suite"
			r.Report.Add(row)
			return nil
		}
	}
	begun := time.Now()
	var failures []string
	for {
		failure, err := r.try(ctx, j)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil // what was interrupted has no result
		}
		if failure == nil {
			break
		}
		failures = append(failures, failure.Error())
		if len(failures) > r.Again {
			row.Result = Fail
			break
		}
	}
	row.Seconds = time.Since(begun).Seconds()
	if row.Result == Pass && j.c.Refused != "" {
		row.Detail = "refused, as it should be"
	}
	if len(failures) > 0 {
		row.Detail = strings.Join(failures, "\nand again: ")
	}
	r.Report.Add(row)
	return nil
}

// try runs a case once: failure is how it has failed, and err why it could not be run.
func (r *Runner) try(ctx context.Context, j job) (failure, err error) {
	n, err := NewNet()
	if err != nil {
		return nil, err
	}
	defer n.Close()
	server, client := n.Place(j.stage, 0, r.Options...), n.Place(j.stage, 1, r.Options...)
	if j.where == oneAddress || j.c.Server == nil {
		client = server
	}
	return j.c.run(ctx, n, server, client), nil
}

// pyverbs runs the test suite of pyverbs on a stage.
func (r *Runner) pyverbs(ctx context.Context, s *Stage) error {
	if ctx.Err() != nil || !strings.Contains(groupPyverbs, r.Only) {
		return nil
	}
	p, closePlace, err := NewPyverbs(s, r.Options...)
	if err != nil {
		return err
	}
	defer closePlace()
	results, err := RunPyverbs(ctx, p)
	for _, x := range results {
		r.Report.Add(Row{Suite: s.Suite, Group: groupPyverbs, Program: x.Test, Where: oneAddress,
			Result: x.Result, Detail: x.Detail})
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
