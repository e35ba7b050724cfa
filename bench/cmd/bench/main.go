// Command bench makes docs/bench: it measures goroce against TCP and against its own links without
// a protocol, between two processes in two network namespaces, and writes a table, charts and the
// data. "bench compare OLD NEW" says what differs between two runs; "bench attack" measures what
// strangers can do, for docs/security.md; "bench micro" makes docs/micro, "bench congestion"
// docs/congestion.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/attack"
	"github.com/goroce/goroce/bench/guests"
	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/paths"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/bench/suite"
	"github.com/goroce/goroce/conformance/lab"
)

// Folders to write to.
const (
	reportDir    = "docs/bench"
	contendedDir = "docs/bench/contended" // of a run of that item alone
	profileDir   = "bin/profiles"
)

var subcommands = map[string]func(args []string) error{
	"attack": attacks, "compare": compare, "congestion": congestion, "micro": micros,
}

func main() {
	if os.Getenv(node.Env) != "" {
		exit(node.Main())
		return
	}
	if attack.Child() || paths.Child() {
		return
	}
	if len(os.Args) > 1 {
		if run := subcommands[os.Args[1]]; run != nil {
			exit(run(os.Args[2:]))
			return
		}
	}
	exit(run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	dir := flag.String("o", reportDir, "folder to write to; with -profile: "+profileDir+" if not given")
	full := flag.Bool("full", false, "more sizes, longer rounds")
	flag.Bool("quick", true, "what is done without -full")
	items := flag.String("items", strings.Join(suite.Items, ","),
		"what to measure; "+suite.Contended+" is measured if it is named, and "+itemPaths+" by itself")
	links := flag.String("links", "udp,packet,xdp",
		"links to measure; one that this process may not open is left out, and the report says so")
	rounds := flag.Int("rounds", 5, "rounds of each measurement")
	ms := flag.Int("ms", 0, "milliseconds of a measurement; 0: 80, 250 with -full")
	var cells *regexp.Regexp
	flag.Func("only", "with -items "+suite.Contended+" or "+itemPaths+
		", only the cases whose names match this `regexp`, such as 'quota of 0.5.* 128 B, 1 connection' or 'loss 1 %: WRITE'; those of an earlier run stay in the report",
		func(s string) (err error) {
			cells, err = regexp.Compile(s)
			return err
		})
	loopback := flag.Bool("loopback", false, "loopback addresses also if namespaces can be made")
	pin := flag.Bool("pin", false,
		"keep each node to a CPU of its own: where the scheduler puts their threads makes rounds differ")
	unprivileged := flag.Bool("unprivileged", false,
		"the nodes give up all capabilities: measures the udp link as most users have it, with socket buffers of net.core.rmem_max")
	profile := flag.String("profile", "",
		"instead, store CPU profiles of both ends of a case on the first link, and print what took most. Cases: "+
			strings.Join(suite.ProfileNames(), ", "))
	inLab := flag.Bool("lab", false,
		"only compare with the kernel's rxe in two guests, and add that to the report in -o")
	debian := flag.String("debian", "bookworm", "with -lab, the Debian suite of the guests")
	cpu := flag.String("cpu", "", "with -lab, the CPU model that QEMU emulates; default "+guests.DefaultCPU)
	labProfiles := flag.String("lab-profile", "",
		"with -lab, store CPU profiles of goroce's tools in the guests in this `folder`")
	labLink := flag.String("lab-link", "udp", "with -lab, the link of goroce in the guests")
	labProgram := flag.String("lab-program", "",
		"with -lab, a built roce, such as that of another commit, in place of this checkout's")
	networks := guests.Networks()
	flag.Func("lab-networks", "with -lab, the networks of the guests: `bridge` of the kernel, with offloads, and the interop lab's wire, without; default bridge,wire", func(s string) error {
		networks = nil
		for _, n := range strings.Split(s, ",") {
			if !slices.Contains(guests.Networks(), guests.Network(n)) {
				return fmt.Errorf("one or both of bridge and wire")
			}
			networks = append(networks, guests.Network(n))
		}
		return nil
	})
	redraw := flag.Bool("redraw", false, "measure nothing: write the table and the charts of the data in -o again")
	var only *regexp.Regexp
	flag.Func("lab-only", "with -lab, run the tests whose names match this `regexp`, such as 'write_bw.*polling'",
		func(s string) (err error) {
			only, err = regexp.Compile(s)
			return err
		})
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("argument %q is not understood", flag.Arg(0))
	}
	if *items == suite.Contended && *dir == reportDir && *profile == "" {
		*dir = contendedDir
	}
	if *items == itemPaths {
		if *dir == reportDir {
			*dir = pathsDir
		}
		if *redraw {
			return paths.Redraw(*dir)
		}
		return overPaths(*dir, cells, *rounds, *ms)
	}
	if *redraw {
		r, err := report.Read(*dir)
		if err != nil {
			return err
		}
		return r.Write(*dir)
	}
	if *inLab {
		return guestsInto(*dir, guests.Options{
			Suite: *debian, CPU: *cpu, Link: *labLink, Program: *labProgram, Networks: networks, Only: only,
			Rounds: *rounds, Profiles: *labProfiles,
			Logf: func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) },
		})
	}
	if *ms == 0 {
		*ms = 80
		if *full {
			*ms = 250
		}
	}
	if *rounds < 1 || *ms < 1 {
		return fmt.Errorf("-rounds and -ms must be positive")
	}
	o := suite.Options{
		Items: strings.Split(*items, ","), Links: strings.Split(*links, ","), Full: *full, Rounds: *rounds,
		RoundMs: *ms, Loopback: *loopback, Pin: *pin, Only: cells,
		Logf: func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) },
	}
	if *unprivileged {
		if err := os.Setenv(node.EnvUnprivileged, "1"); err != nil { // the nodes inherit it
			return err
		}
	}
	if !*loopback {
		suite.Enter()
	}
	r := &report.Report{Command: command(), Items: o.Items, Rounds: *rounds, RoundMs: *ms}
	watch, err := suite.Watch(&r.Machine)
	if err != nil {
		return err
	}
	s, err := suite.New(o, r)
	if err != nil {
		return err
	}
	if *profile != "" {
		if *dir == reportDir {
			*dir = profileDir // not among what is committed
		}
		err = s.Profile(*profile, *dir)
	} else {
		err = s.Run()
		watch.Done(s.SelfUsage())
		r.SignContended()
	}
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	if *profile != "" {
		return err
	}
	if old, oerr := report.Read(*dir); oerr == nil { // guests are measured by -lab alone
		for _, c := range old.Of("lab") {
			r.Cases = append(r.Cases, *c)
		}
		r.LabCommand, r.LabSeconds, r.Lab, r.LabPart = old.LabCommand, old.LabSeconds, old.Lab, old.LabPart
		if cells != nil {
			r.Keep(old)
		}
	}
	if werr := r.Write(*dir); err == nil {
		err = werr
	}
	return err
}

// guestsInto runs the comparison in guests, and replaces that of a report.
func guestsInto(dir string, o guests.Options) error {
	lab.Enter(guests.Prepare(o.Suite, o.Logf))
	began := time.Now()
	cases, what, err := guests.Run(context.Background(), o)
	if len(cases) == 0 {
		return err
	}
	r, rerr := report.Read(dir)
	if errors.Is(rerr, os.ErrNotExist) {
		r = &report.Report{Rounds: o.Rounds}
	} else if rerr != nil {
		return errors.Join(err, rerr)
	}
	r.Cases = slices.DeleteFunc(r.Cases, func(c report.Case) bool { return c.Item == "lab" })
	r.Cases = append(r.Cases, cases...)
	r.LabCommand, r.LabSeconds, r.Lab, r.LabPart = command(), time.Since(began).Seconds(), what, o.Part()
	return errors.Join(err, r.Write(dir))
}

// command is how to run this again.
func command() string {
	line := "go run ./bench/cmd/bench"
	for _, a := range os.Args[1:] {
		if strings.ContainsAny(a, " |*?'\"$&;()<>[]^\\") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		line += " " + a
	}
	return line
}
