package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
)

// driller plays drills.
type driller struct {
	targets, suites list
	run             *regexp.Regexp
	md, cpu         string
	verbose         bool
	drills          []*drill.Drill
	logf            func(string, ...any)
}

// drills plays the packet drills on several targets, and writes the table.
//
//	go run ./conformance/cmd/lab drill                                  # engine and udp
//	go run ./conformance/cmd/lab drill -target engine -run dup -v       # some of them
//	go run ./conformance/cmd/lab drill -target rxe -suite bookworm      # the kernel in a guest
//	go run ./conformance/cmd/lab drill -target engine,udp,rxe -md conformance/DRILLS.md
//	go run ./conformance/cmd/lab drill -target engine my.drill          # a script of one's own
func drills(t *tool, args []string) error {
	o := driller{targets: list{"engine", "udp"}, logf: t.logf}
	t.Var(&o.targets, "target", "comma-separated targets: engine, udp, rxe")
	suites := t.suites(lab.Suites, "Debian suites whose kernels rxe is run in")
	run := t.String("run", "", "only drills whose name or tags match this expression")
	timeout := t.Duration("timeout", time.Hour, "limit for everything")
	t.StringVar(&o.md, "md", "", "also write the table to this file, as Markdown")
	t.StringVar(&o.cpu, "cpu", "", "QEMU's CPU model of the guests; empty is the lab's own choice")
	t.BoolVar(&o.verbose, "v", false, "print each drill as it is played, and the ladders of differences that are known")
	_ = t.Parse(args) // it exits
	o.suites = *suites
	if err := o.choose(*run, t.Args()); err != nil {
		return usageError{err}
	}
	if slices.Contains(o.targets, "rxe") {
		lab.EnterWithGuests(o.suites, o.logf)
	}
	ctx, stop := t.context(*timeout)
	defer stop()
	table, err := o.play(ctx)
	if err == nil && o.md != "" {
		err = o.writeMarkdown(table)
	}
	if err == nil && table.Failed() > 0 {
		err = errFailed
	}
	return err
}

// choose checks the command line, and reads the scripts named there.
func (o *driller) choose(run string, files []string) (err error) {
	if len(o.targets) == 0 {
		return errors.New("no target: use engine, udp or rxe")
	}
	for _, t := range o.targets {
		if !slices.Contains([]string{"engine", "udp", "rxe"}, t) {
			return fmt.Errorf("%q is no target: use engine, udp or rxe", t)
		}
	}
	if o.run, err = regexp.Compile(run); err != nil {
		return err
	}
	all := drill.List()
	if len(files) > 0 {
		if all, err = drill.Read(files...); err != nil {
			return err
		}
	}
	for _, d := range all {
		if o.run.MatchString(d.Name) || slices.ContainsFunc(d.Tags, o.run.MatchString) {
			o.drills = append(o.drills, d)
		}
	}
	if len(o.drills) == 0 {
		return fmt.Errorf("no drill matches %q", run)
	}
	return nil
}

// column is a target with what the table says of it.
type column struct {
	drill.Target
	about string
	log   *kernelLog                            // of the guest that the target is in; nil for the others
	guest *lab.Guest                            // that the target is in, and
	again func(context.Context) (column, error) // boots another one of its kind
}

// column plays the drills on one target. Those that are known to stop its machine come last, each
// on one of its own.
func (o *driller) column(ctx context.Context, c column, results chan<- drill.Result) {
	var last []*drill.Drill
	for _, d := range o.drills {
		if ctx.Err() != nil {
			return
		}
		if len(d.StopsMachine(c.Profile())) > 0 && c.again != nil {
			last = append(last, d)
			continue
		}
		r := drill.Run(ctx, d, c, drill.Options{Stop: c.guest != nil})
		if c.gone() {
			spoil(&r, drill.Fail,
				"it stopped the machine, which the script does not say:\n"+c.guest.Console(panicLines))
			var err error
			if c, err = c.again(ctx); err != nil {
				spoil(&r, drill.Broken, err.Error())
				results <- r
				return
			}
		} else if c.log != nil {
			c.log.check(ctx, &r, c.Profile())
		}
		results <- r
	}
	for _, d := range last {
		if ctx.Err() != nil {
			return
		}
		results <- o.stops(ctx, c, d)
	}
}

// gone reports whether the target's machine has stopped. A kernel takes a while to say all that it
// has to, so that one that panics has stopped.
func (c *column) gone() bool {
	if c.guest == nil {
		return false
	}
	select {
	case <-c.guest.Gone():
		return true
	default:
		return c.guest.Panicked()
	}
}

// stops plays a drill that is known to stop the target's machine, on a new one.
func (o *driller) stops(ctx context.Context, c column, d *drill.Drill) drill.Result {
	fresh, err := c.again(ctx)
	if err != nil {
		return drill.Result{Drill: d, Target: c.Name(), Verdict: drill.Broken, Text: err.Error()}
	}
	defer fresh.guest.Close()
	defer fresh.Close()
	r := drill.Run(ctx, d, fresh, drill.Options{Stop: true, Profile: drill.Spec})
	r.Target = c.Name()
	select {
	case <-fresh.guest.Gone():
	case <-time.After(stopWait):
	}
	if !fresh.guest.Panicked() {
		spoil(&r, drill.Fail, "the drill says that it stops this machine, and it did not")
		return r
	}
	r.Verdict, r.Deviations = drill.Deviates, d.StopsMachine(c.Profile())
	r.Text = "the kernel panics:\n" + fresh.guest.Console(panicLines)
	return r
}

// stopWait is how long a kernel may take to panic, and to say so; panicLines is what is shown of
// it.
const (
	stopWait   = 30 * time.Second
	panicLines = 60
)

// play runs all drills on all targets, the targets side by side.
func (o *driller) play(ctx context.Context) (*drill.Table, error) {
	table := drill.NewTable(o.drills)
	columns, closeAll, err := o.open(ctx)
	defer closeAll()
	if err != nil {
		return table, err
	}
	results := make(chan drill.Result)
	var wg sync.WaitGroup
	for _, c := range columns {
		table.AddTarget(c.Name(), c.about)
		wg.Add(1)
		go func() {
			defer wg.Done()
			o.column(ctx, c, results)
		}()
	}
	go func() {
		wg.Wait()
		close(results)
	}()
	for r := range results {
		table.Add(r)
		o.tell(r)
	}
	for i, n := range table.Targets {
		o.logf("%s: %s", n, table.Summary(i))
	}
	return table, context.Cause(ctx)
}

// tell prints a result if it is of interest.
func (o *driller) tell(r drill.Result) {
	if o.verbose || !r.OK() {
		o.logf("%v", r)
	}
	if r.Ladder != "" && (o.verbose || !r.OK()) {
		fmt.Fprintln(os.Stderr, r.Ladder)
	}
}

// open opens the targets.
func (o *driller) open(ctx context.Context) (list []column, closeAll func(), err error) {
	var closers []func()
	closeAll = func() {
		for _, f := range slices.Backward(closers) {
			f()
		}
	}
	for _, name := range o.targets {
		switch name {
		case "engine":
			list = append(list, column{Target: drill.NewEngine(), about: "this module's device in virtual time"})
		case "udp":
			t, err := drill.NewUDP(drill.LoopbackUDP())
			if err != nil {
				return nil, closeAll, err
			}
			closers = append(closers, func() { t.Close() })
			list = append(list, column{Target: t, about: "this module's device on the udp link, on loopback addresses"})
		case "rxe":
			l, err := lab.New(lab.Config{Logf: o.logf})
			if err != nil {
				return nil, closeAll, err
			}
			closers = append(closers, l.Close)
			guests, err := o.bootAll(ctx, l)
			for _, c := range guests {
				if c.Target != nil {
					closers = append(closers, func() { c.Close() })
					list = append(list, c)
				}
			}
			if err != nil {
				return nil, closeAll, err
			}
		}
	}
	return list, closeAll, nil
}

// bootAll boots the guests side by side.
func (o *driller) bootAll(ctx context.Context, l *lab.Lab) ([]column, error) {
	list, errs := make([]column, len(o.suites)), make([]error, len(o.suites))
	var wg sync.WaitGroup
	for i, suite := range o.suites {
		wg.Go(func() { list[i], errs[i] = o.boot(ctx, l, suite, 1) })
	}
	wg.Wait()
	return list, errors.Join(errs...)
}

// boot boots the n-th guest of a suite and opens the target in it.
func (o *driller) boot(ctx context.Context, l *lab.Lab, suite string, n int) (column, error) {
	im, err := lab.OpenImage(suite)
	if err != nil {
		return column{}, err
	}
	name := suite
	if n > 1 {
		name = fmt.Sprintf("%s-%d", suite, n)
	}
	g, err := l.Boot(ctx, lab.GuestConfig{Name: name, Image: im, CPU: o.cpu, KernelArgs: lab.PanicArg})
	if err != nil {
		return column{}, err
	}
	p, err := hosts.NewRXE(ctx, g)
	if err != nil {
		return column{}, err
	}
	t, err := newRxe(ctx, l, p)
	again := func(ctx context.Context) (column, error) {
		n++
		return o.boot(ctx, l, suite, n)
	}
	of, _, _ := strings.Cut(suite, "@")
	return column{t, fmt.Sprintf("rdma_rxe of Debian %s, kernel %s, in a guest", of, im.Version), &kernelLog{
		k: g,
	}, g, again}, err
}

// writeMarkdown writes the page of documentation.
func (o *driller) writeMarkdown(t *drill.Table) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Packet drills\n\nMade by `go run ./conformance/cmd/lab drill -target %s -md conformance/DRILLS.md`. [docs/drills.md](../docs/drills.md) says what a drill is, and how\nto write one. ",
		strings.Join(o.targets, ","))
	if err := t.WriteMarkdown(&b); err != nil {
		return err
	}
	return os.WriteFile(o.md, b.Bytes(), 0o644)
}
