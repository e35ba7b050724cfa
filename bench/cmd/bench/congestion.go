package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/goroce/goroce/bench/simreport"
)

// congestion makes docs/congestion: it runs the experiments of package simreport, and writes their
// tables and charts.
func congestion(args []string) error {
	flags := flag.NewFlagSet("congestion", flag.ExitOnError)
	dir := flags.String("o", "docs/congestion", "folder to write to")
	_ = flags.Parse(args) // it exits
	out, err := simreport.Experiments(func(r *simreport.Result) {
		fmt.Fprintf(os.Stderr, "%s: %d packets, %.1f %% of the port\n", r.Scenario.Name, r.Packets, 100*r.Utilization)
	})
	if err != nil {
		return err
	}
	return out.Write(*dir)
}
