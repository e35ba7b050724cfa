package simreport_test

import (
	"fmt"

	"github.com/goroce/goroce/bench/simreport"
	"github.com/goroce/goroce/transport/cc"
)

// Two senders to one receiver, with the paper's parameters.
func ExampleRun() {
	r, err := simreport.Run(&simreport.Scenario{
		Name: "example", Flows: simreport.Incast(2),
		CC: cc.Config{Algorithm: cc.DCQCNPaper}, RED: simreport.PaperRED,
		DurationNs: 5 * simreport.Millisecond, WarmupNs: 2 * simreport.Millisecond,
		SampleNs: 20 * simreport.Microsecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("busy:", r.Utilization > 0.5, "fair:", r.Jain > 0.9, "lost:", r.Dropped)
	// Output: busy: true fair: true lost: 0
}
