package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/programs"
	"github.com/goroce/goroce/conformance/suites"
)

type suiteOptions struct {
	names, on     list
	only, bin     string
	archives      string
	quick, keep   bool
	install, page bool
	repeat        int
	logf          func(string, ...any)
}

// Where results and the page are, in the checkout.
const (
	suiteResults = "conformance/suites/results.txt"
	suitePage    = "conformance/SUITES.md"
)

// runSuites runs test suites of others on this project's libibverbs and librdmacm.
func runSuites(t *tool, args []string) error {
	o := suiteOptions{logf: t.logf, names: suites.Names(), on: suites.Sites}
	t.Var(&o.names, "suite", "comma-separated suites to run")
	t.Var(&o.on, "on", "comma-separated sites to run them on: "+strings.Join(suites.AllSites, ", "))
	t.StringVar(&o.only, "only", "", "run only tests whose name contains this")
	t.StringVar(&o.bin, "bin", "bin", "folder of roce, with the libraries in verbs below it")
	t.StringVar(&o.archives, "sources", "",
		"folder with NAME.tar.*, for each suite to be unpacked from there and not fetched")
	t.BoolVar(&o.quick, "quick", false, "run a share of the tests")
	t.BoolVar(&o.keep, "table", false,
		"put the results into "+suiteResults+", and make "+suitePage+" of all that is there")
	t.BoolVar(&o.page, "page", false, "make "+suitePage+" again, and do nothing else")
	t.BoolVar(&o.install, "install", false,
		"install what building and running the suites needs, by apt, and do nothing else")
	t.IntVar(&o.repeat, "repeat", 1, "how often to run everything")
	timeout := t.Duration("timeout", 6*time.Hour, "limit for everything")
	if err := t.parseAlone(args); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return usageError{err}
	}
	switch {
	case o.install:
		return lab.Install(context.Background(), suites.Needs(o.names), t.logf)
	case o.page:
		old, err := readResults()
		if err != nil {
			return err
		}
		return writePage(old)
	}
	lab.Enter(func(ctx context.Context) error {
		_, err := o.prepare(ctx)
		if guests := o.guests(); err == nil && len(guests) > 0 {
			err = prepareGuests(ctx, guests, t.logf)
		}
		return err
	})
	ctx, stop := t.context(*timeout)
	defer stop()
	return o.run(ctx)
}

func (o *suiteOptions) check() error {
	for _, n := range o.names {
		if !slices.Contains(suites.Names(), n) {
			return fmt.Errorf("suite %q is none of %s", n, strings.Join(suites.Names(), ", "))
		}
	}
	for _, n := range o.on {
		if !slices.Contains(suites.AllSites, n) {
			return fmt.Errorf("site %q is none of %s", n, strings.Join(suites.AllSites, ", "))
		}
	}
	if o.keep && (o.only != "" || o.repeat > 1) {
		return errors.New("-table keeps whole runs only, without -only and -repeat")
	}
	return nil
}

// guests are the Debian suites of the guests to boot.
func (o *suiteOptions) guests() (names []string) {
	for _, on := range o.on {
		if of := suites.Guests[on]; of != "" {
			names = append(names, of)
		}
	}
	return names
}

// prepare builds the suites, or finds them built, and returns their folders.
func (o *suiteOptions) prepare(ctx context.Context) (map[string]string, error) {
	dirs := map[string]string{}
	for _, s := range suites.All() {
		if !slices.Contains(o.names, s.Name) {
			continue
		}
		if s.Packages != nil || s.GuestPackages != nil && len(o.guests()) > 0 {
			if _, err := s.Root(ctx, o.logf); err != nil {
				return nil, err
			}
		}
		if s.Packages != nil {
			continue
		}
		archive := ""
		if o.archives != "" {
			found, _ := filepath.Glob(filepath.Join(o.archives, s.Name+".tar*"))
			if len(found) > 0 {
				archive = found[0]
			}
		}
		dir, err := s.Prepare(ctx, archive, o.logf)
		if err != nil {
			return nil, err
		}
		dirs[s.Name] = dir
	}
	return dirs, nil
}

func (o *suiteOptions) run(ctx context.Context) error {
	known, err := suites.AllKnown()
	if err != nil {
		return err
	}
	dirs, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	var results []suites.Result
	whole := map[[2]string]bool{}
	var errs []error
	for i := range o.repeat {
		for _, s := range suites.All() {
			for _, on := range o.on {
				if !slices.Contains(o.names, s.Name) || ctx.Err() != nil {
					continue
				}
				if suites.Guests[on] != "" && s.RunInGuest == nil {
					o.logf("%s is not run on %s", s.Name, on)
					continue
				}
				got, err := o.turn(ctx, s, on, dirs[s.Name], known)
				o.logf("run %d: %s on %s: %s", i+1, s.Name, on, suites.Summary(got))
				results = append(results, got...)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s on %s: %w", s.Name, on, err))
					continue
				}
				whole[[2]string{s.Name, on}] = o.only == "" && !o.quick
			}
		}
	}
	if err := errors.Join(append(errs, context.Cause(ctx))...); err != nil {
		return err
	}
	return o.judge(results, whole, known)
}

// turn runs one suite on one site.
func (o *suiteOptions) turn(ctx context.Context, s suites.Suite, on, dir string,
	known []suites.Known) (got []suites.Result, err error) {
	out, err := lab.OutDir()
	if err != nil {
		return nil, err
	}
	progress, err := os.Create(filepath.Join(out, "suites-"+s.Name+"-"+on+".txt"))
	if err != nil {
		return nil, err
	}
	defer progress.Close()
	turn := suites.Turn{Dir: dir, Only: o.only, Logf: o.logf, Report: func(r suites.Result) {
		r.Suite, r.On, r.Detail = s.Name, on, strings.ReplaceAll(r.Detail, dir+"/", "")
		got = append(got, r)
		_ = suites.WriteResults(progress, []suites.Result{r})
		if unknown, _ := suites.Judge(known, []suites.Result{r}, nil); len(unknown) > 0 && on != suites.OnNothing {
			o.logf("%s on %s: FAIL %s: %s", s.Name, on, r.Test, r.Detail)
		}
	}}
	if o.quick {
		turn.Share = s.Share
	}
	if s.Packages != nil || s.GuestPackages != nil && suites.Guests[on] != "" {
		if turn.Root, err = s.Root(ctx, o.logf); err != nil {
			return nil, err
		}
	}
	if suites.Guests[on] != "" {
		err = o.inGuest(ctx, s, on, &turn)
	} else {
		err = o.here(ctx, s, on, &turn)
	}
	return got, err
}

// here runs a suite on this machine.
func (o *suiteOptions) here(ctx context.Context, s suites.Suite, on string, turn *suites.Turn) error {
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return err
	}
	out, err := lab.OutDir()
	if err != nil {
		return err
	}
	if turn.Site, err = suites.NewSite(on, bin, out); err != nil {
		return err
	}
	defer turn.Site.Close()
	if turn.Root != nil {
		if turn.Stage, err = programs.NewStage(turn.Root, bin); err != nil {
			return err
		}
	}
	return s.Run(ctx, turn)
}

// inGuest boots a guest and runs a suite in it.
func (o *suiteOptions) inGuest(ctx context.Context, s suites.Suite, on string, turn *suites.Turn) error {
	image, err := lab.OpenImage(suites.Guests[on])
	if err != nil {
		return err
	}
	l, err := lab.New(lab.Config{Logf: o.logf})
	if err != nil {
		return err
	}
	defer l.Close()
	if turn.Guest, err = l.Boot(ctx, lab.GuestConfig{Name: image.Suite, Image: image,
		MemoryMB: suites.GuestMemoryMB}); err != nil {
		return err
	}
	return s.RunInGuest(ctx, turn)
}

// judge compares with the list of known failures, and keeps results.
func (o *suiteOptions) judge(results []suites.Result, whole map[[2]string]bool, known []suites.Known) error {
	unknown, stale := suites.Judge(known, results, whole)
	for _, k := range stale {
		o.logf("STALE: %v: it does not fail any more", k)
	}
	if o.keep {
		old, err := readResults()
		if err != nil {
			return err
		}
		all := suites.Merge(old, results, whole)
		f, err := os.Create(suiteResults)
		if err != nil {
			return err
		}
		if err := errors.Join(suites.WriteResults(f, all), f.Close(), writePage(all)); err != nil {
			return err
		}
	}
	fmt.Println(suites.Summary(results))
	if len(unknown)+len(stale) > 0 {
		fmt.Printf("%d failures are not in known.txt, %d of its lines are stale\n", len(unknown), len(stale))
		return errFailed
	}
	return nil
}

func readResults() ([]suites.Result, error) {
	f, err := os.Open(suiteResults)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return suites.ReadResults(f)
}

// writePage makes the page of results.
func writePage(all []suites.Result) error {
	known, err := suites.AllKnown()
	if err != nil {
		return err
	}
	f, err := os.Create(suitePage)
	if err != nil {
		return err
	}
	return errors.Join(suites.WriteTable(f, all, known), f.Close())
}
