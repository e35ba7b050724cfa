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
	only := flags.String("only", "", "one page: README, loss, control")
	_ = flags.Parse(args) // it exits
	return simreport.Write(*dir, *only, func(what string) { fmt.Fprintln(os.Stderr, what) })
}
