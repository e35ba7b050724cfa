// Command bench makes docs/bench: it measures goroce against TCP and against its own
// links without a protocol, between two processes in two network namespaces, and writes
// a table, charts and the data.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/bench/suite"
)

func main() {
	if os.Getenv(node.Env) != "" {
		exit(node.Main())
		return
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
	dir := flag.String("o", "docs/bench", "folder to write to")
	full := flag.Bool("full", false, "more sizes, longer rounds")
	flag.Bool("quick", true, "what is done without -full")
	items := flag.String("items", strings.Join(suite.Items, ","), "what to measure")
	links := flag.String("links", "udp,packet", "links to measure")
	rounds := flag.Int("rounds", 5, "rounds of each measurement")
	ms := flag.Int("ms", 0, "milliseconds of a measurement; 0: 80, 250 with -full")
	loopback := flag.Bool("loopback", false, "loopback addresses also if namespaces can be made")
	profile := flag.String("profile", "", "instead, store CPU profiles of both ends of a case in the folder -o; of: "+strings.Join(suite.ProfileNames(), ", "))
	redraw := flag.Bool("redraw", false, "measure nothing: write the table and the charts of the data in -o again")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("argument %q is not understood", flag.Arg(0))
	}
	if *redraw {
		r, err := report.Read(*dir)
		if err != nil {
			return err
		}
		return r.Write(*dir)
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
		Items: strings.Split(*items, ","), Links: strings.Split(*links, ","), Full: *full, Rounds: *rounds, RoundMs: *ms, Loopback: *loopback,
		Logf: func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) },
	}
	r := &report.Report{Command: command(), Rounds: *rounds, RoundMs: *ms}
	watch, err := suite.Watch(&r.Machine)
	if err != nil {
		return err
	}
	s, err := suite.New(o, r)
	if err != nil {
		return err
	}
	if *profile != "" {
		err = s.Profile(*profile, *dir)
	} else {
		err = s.Run()
		watch.Done(s.SelfUsage())
	}
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	if *profile != "" {
		return err
	}
	if werr := r.Write(*dir); err == nil {
		err = werr
	}
	return err
}

// command is how to run this again.
func command() string {
	return strings.TrimSpace("go run ./bench/cmd/bench " + strings.Join(os.Args[1:], " "))
}
