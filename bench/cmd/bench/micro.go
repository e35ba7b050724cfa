package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/bench/micro"
	"github.com/goroce/goroce/bench/suite"
	"github.com/goroce/goroce/conformance/hosts"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
)

type microOptions struct {
	dir           string
	links, suites []string
	times         int
	start         time.Time
	command       string
}

// micros makes docs/micro: it boots a guest of each kernel, measures the micro-behaviours of goroce
// on each link and of the guests' rdma_rxe, and writes a page, charts and the data.
//
//	go run ./bench/cmd/bench micro                            # everything: some ten minutes
//	go run ./bench/cmd/bench micro -link udp -suite trixie -o /tmp/micro
//	go run ./bench/cmd/bench micro -redraw                    # page and charts of the data that is there
//
// It is an error if a row failed: then nothing is written. conformance/README.md says what the
// guests need.
func micros(args []string) error {
	var o microOptions
	flags := flag.NewFlagSet("micro", flag.ExitOnError)
	flags.StringVar(&o.dir, "o", "docs/micro", "folder to write to")
	links := flags.String("link", strings.Join(peer.Links(), ","), "comma-separated links of goroce")
	suites := flags.String("suite", strings.Join(lab.Suites, ","),
		"comma-separated Debian suites whose kernels to measure")
	flags.IntVar(&o.times, "n", 24, "how often a reaction is measured in each row")
	timeout := flags.Duration("timeout", time.Hour, "limit for everything")
	redraw := flags.Bool("redraw", false, "measure nothing: write the page and the charts of the data in -o again")
	_ = flags.Parse(args) // it exits
	o.links, o.suites, o.start = strings.Split(*links, ","), strings.Split(*suites, ","), time.Now()
	o.command = "go run ./bench/cmd/bench micro"
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "o" { // where it was written to first is nobody's matter
			o.command += fmt.Sprintf(" -%s %s", f.Name, f.Value)
		}
	})
	return o.run(*timeout, *redraw)
}

func (o *microOptions) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(o.start).Seconds(), fmt.Sprintf(format, args...))
}

func (o *microOptions) run(timeout time.Duration, redraw bool) error {
	if redraw {
		d, err := micro.Read(o.dir)
		if err != nil {
			return err
		}
		return d.Write(o.dir)
	}
	if o.times < 1 {
		return errors.New("-n must be positive")
	}
	for _, l := range o.links {
		if err := peer.CheckLink(l); err != nil {
			return err
		}
	}
	lab.EnterWithGuests(o.suites, o.logf)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done in %v", timeout))
	defer cancel()
	d := &micro.Data{Times: o.times, Command: o.command}
	watch, err := suite.Watch(&d.Machine)
	if err != nil {
		return err
	}
	if err := o.measure(ctx, d); err != nil {
		return err
	}
	watch.Done(0)
	for _, row := range d.Rows {
		if row.Result == matrix.Fail {
			return fmt.Errorf("%s\n%s", row.Label(), row.Detail)
		}
	}
	return d.Write(o.dir)
}

// measure boots the guests and runs the rows, with one kernel after the other, so that the two do
// not take the processor from each other.
func (o *microOptions) measure(ctx context.Context, d *micro.Data) error {
	l, err := lab.New(lab.Config{Logf: o.logf})
	if err != nil {
		return err
	}
	defer l.Close()
	for _, s := range o.suites {
		if err := o.kernel(ctx, l, s, d); err != nil {
			return err
		}
	}
	return nil
}

// kernel measures with the guest of one suite, which it boots and ends.
func (o *microOptions) kernel(ctx context.Context, l *lab.Lab, suite string, d *micro.Data) error {
	im, err := lab.OpenImage(suite)
	if err != nil {
		return err
	}
	g, err := l.Boot(ctx, lab.GuestConfig{Name: suite, Image: im})
	if err != nil {
		return err
	}
	defer g.Close()
	ref, err := hosts.NewRXE(ctx, g)
	if err != nil {
		return err
	}
	d.Guests = append(d.Guests, fmt.Sprintf("%s: Debian %s, kernel %s", ref.Name(), suite, im.Version))
	for _, link := range o.links {
		report := &matrix.Report{OnRow: func(row matrix.Row) { o.logf("%-4s %s", row.Result, row.Label()) }}
		if err := o.link(ctx, l, link, ref, report); err != nil {
			return err
		}
		d.Rows = append(d.Rows, report.Rows()...)
	}
	return nil
}

// link measures goroce on one link with a guest.
func (o *microOptions) link(ctx context.Context, l *lab.Lab, link string, ref *hosts.RXE, report *matrix.Report) error {
	at, err := l.AddHost()
	if err != nil {
		return err
	}
	var dev *peer.Goroce
	err = at.Do(func() (err error) {
		dev, err = peer.NewGoroce(
			peer.GorocePlace{Addr4: at.Addr4, Addr6: at.Addr6, PortName: at.Name, Link: link, RxeFlush: true})
		return err
	})
	if err != nil {
		return err
	}
	// Rows wait for completions, which nobody is to wait for any more when the run ends.
	stop := context.AfterFunc(ctx, func() { dev.Close() })
	defer stop()
	env := &matrix.Env{Wire: l.Wire, Report: report, Kernel: ref.Name(), Link: link, Subject: dev, Ref: ref,
		RefPort: ref.PortName(), Full: true, MicroTimes: o.times}
	return errors.Join(env.Run(ctx, "micro"), dev.Close())
}
