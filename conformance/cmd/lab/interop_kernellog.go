package main

import (
	"fmt"
	"strings"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
)

// drillsGroup is the group of "roce conform" that plays the packet drills.
const drillsGroup = "drills"

// knownWarnings are the places in the source of a kernel whose warnings this run is known to cause,
// each with the drill that does. There are none unless the run plays the drills.
func (r *runner) knownWarnings(version string) map[string]string {
	known := map[string]string{}
	if !r.conform || !r.wants(drillsGroup) {
		return known
	}
	for _, d := range drill.List() {
		for _, place := range d.Logs(drill.Profile("rxe-" + version)) {
			known[place] = d.Name
		}
	}
	return known
}

// kernelResult is the result for a guest whose kernel has complained, and what it has complained
// of.
func kernelResult(log []lab.Trouble, known map[string]string) (matrix.Result, string) {
	var bad, named []string
	for _, x := range log {
		if name, is := known[x.Warning()]; is {
			named = append(named, fmt.Sprintf("known of the drill %s: %s", name, x[0]))
		} else {
			bad = append(bad, x.String())
		}
	}
	if len(bad) > 0 {
		return matrix.Fail, strings.Join(append(bad, named...), "\n")
	}
	return matrix.Pass, strings.Join(named, "\n")
}
