package stat_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/stat"
	"github.com/goroce/goroce/roce/verbs"
)

// A program lets "roce stat" see its device; here it asks itself.
func Example() {
	l, err := sim.New(sim.Config{}).Link(netip.MustParseAddr("10.0.0.1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	device, err := verbs.Open(verbs.Config{Link: l})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer device.Close()
	srv, err := stat.Serve(device)
	if err != nil {
		fmt.Println(err) // no reason to end: nobody can look, that is all
		return
	}
	defer srv.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all, err := stat.Find()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range all {
		if e.PID != os.Getpid() {
			continue
		}
		p, err := e.Ask(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, d := range p.Devices {
			fmt.Println(d.Link, d.GIDs, d.State, d.Counters["sent_pkts"], "packets sent")
		}
	}
	// Output: sim [10.0.0.1] ACTIVE 0 packets sent
}
