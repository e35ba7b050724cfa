// Command simreport makes docs/congestion: it runs the experiments of package
// simreport and writes their tables and charts.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/goroce/goroce/bench/simreport"
)

func main() {
	dir := flag.String("o", "docs/congestion", "folder to write to")
	flag.Parse()
	out, err := simreport.Experiments(func(r *simreport.Result) {
		fmt.Fprintf(os.Stderr, "%s: %d packets, %.1f %% of the port\n", r.Scenario.Name, r.Packets, 100*r.Utilization)
	})
	if err == nil {
		err = out.Write(*dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simreport:", err)
		os.Exit(1)
	}
}
