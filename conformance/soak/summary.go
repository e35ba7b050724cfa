package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Summary is what a run has found.
type Summary struct {
	Network   string
	Took      time.Duration
	Events    map[string]int      // disturbances
	Errors    map[string]int      // that calls returned, by who met them and their kind
	Exchanges map[string]int64    // verified, by pair of processes and kind of connection
	Rests     map[string][]Sample // of the processes that stay
	Returned  time.Duration       // the longest time until clients were back at a server that was killed
	Faults    []string            // why the run has failed
}

// Print writes the summary.
func (s *Summary) Print(w io.Writer) {
	fmt.Fprintf(w, "soak: %v, %s\n", s.Took.Round(time.Second), s.Network)
	fmt.Fprintln(w, "\nverified exchanges:")
	for _, k := range slices.Sorted(maps.Keys(s.Exchanges)) {
		fmt.Fprintf(w, "  %-40s %12d\n", k, s.Exchanges[k])
	}
	fmt.Fprintln(w, "\ndisturbances:")
	printCounts(w, s.Events)
	fmt.Fprintf(w, "after a restart of the server all clients were back within %v\n",
		s.Returned.Round(time.Millisecond))
	fmt.Fprintln(w, "\nerrors of calls, all of them explained unless listed below:")
	printCounts(w, s.Errors)
	for _, name := range slices.Sorted(maps.Keys(s.Rests)) {
		rests := s.Rests[name]
		if len(rests) == 0 {
			continue
		}
		last := rests[len(rests)-1]
		fmt.Fprintf(w, "\n%s, at %d rests:\n", name, len(rests))
		for _, t := range trends(rests) {
			fmt.Fprintln(w, "  "+t.String())
		}
		if first, last := thirds(rests); within(first, 1) > 0 {
			fmt.Fprintf(w,
				"  an exchange with the %s, half of them and 99 of 100 within: first third %v, %v; last third %v, %v\n",
				theServer, within(first, 0.5), within(first, 0.99), within(last, 0.5), within(last, 0.99))
		}
		c := last.Counters
		fmt.Fprintf(w, "  CPU %v, %.3f of a core\n", last.CPU.Round(time.Millisecond),
			last.CPU.Seconds()/s.Took.Seconds())
		fmt.Fprintf(w, "  %d packets sent (%d again, %d timeouts, %d probes), %d received; dropped: ICRC %d, malformed %d, access %d, no queue pair %d\n",
			c.SentPkts, c.RetransmittedPkts, c.Timeouts, c.LossProbes, c.RcvdPkts, c.DropICRC,
			c.DropMalformed, c.DropAccess, c.DropNoQP)
	}
	if len(s.Faults) == 0 {
		fmt.Fprintln(w, "\nno faults")
		return
	}
	fmt.Fprintf(w, "\n%d FAULTS:\n", len(s.Faults))
	for _, f := range s.Faults {
		fmt.Fprintln(w, "  "+f)
	}
}

func printCounts(w io.Writer, counts map[string]int) {
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "  %-70s %8d\n", k, counts[k])
	}
}
