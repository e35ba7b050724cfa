package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"

	"github.com/goroce/goroce/bench/report"
)

// compare is "bench compare OLD NEW".
func compare(args []string) error {
	f := flag.NewFlagSet("bench compare", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintf(f.Output(), `usage: bench compare [flags] OLD NEW

OLD and NEW are folders that bench -o has written, or their JSON files. What differs by more than chance is shown: by the test of Mann and
Whitney over the rounds, p < %.2f, as benchstat has it. So give both runs 10 rounds or more (-rounds), and on a machine
that does other things too look at the figures that are ratios to what ran in the same rounds.
`, report.Alpha)
		f.PrintDefaults()
	}
	var o report.CompareOptions
	f.BoolVar(&o.All, "all", false, "also show figures that do not differ")
	pattern := func(to **regexp.Regexp) func(string) error {
		return func(s string) (err error) {
			*to, err = regexp.Compile(s)
			return err
		}
	}
	f.Func("cases", "only cases whose names match this `regexp`, such as 'single: WRITE.*udp'", pattern(&o.Cases))
	f.Func("figures", "only figures whose names match this `regexp`, such as 'CPU|x TCP'", pattern(&o.Figures))
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if f.NArg() != 2 {
		f.Usage()
		return errors.New("compare needs two runs")
	}
	old, err := report.Read(f.Arg(0))
	if err != nil {
		return err
	}
	now, err := report.Read(f.Arg(1))
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(report.Comparison(old, now, o))
	return err
}
