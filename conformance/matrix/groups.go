package matrix

import (
	"context"
	"fmt"
	"slices"

	"github.com/goroce/goroce/conformance/peer"
)

// group is a group of rows that need nothing but two peers and the wire between them.
type group struct {
	name  string
	lanes func(*Env) int
	jobs  func(*Env, role) []job
}

func oneLane(*Env) int { return 1 }

// severalLanes is for rows that wait more than they work.
func severalLanes(e *Env) int {
	if e.Lanes > 0 {
		return e.Lanes
	}
	return faultLanes
}

var groups = []group{
	{"operations", func(e *Env) int { return max(e.Lanes, 1) }, (*Env).operationJobs},
	{"errors", severalLanes, (*Env).errorJobs},
	{"faults", severalLanes, (*Env).faultJobs},
	{"micro", oneLane, (*Env).microJobs},
	{"canaries", oneLane, (*Env).canaryJobs},
	{"capture", oneLane, (*Env).captureJobs},
}

// Groups are the names of the groups that Run and List know.
func Groups() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

func groupOf(name string) (group, error) {
	if i := slices.IndexFunc(groups, func(g group) bool { return g.name == name }); i >= 0 {
		return groups[i], nil
	}
	return group{}, fmt.Errorf("matrix: there is no group %q", name)
}

// Run runs a group with the subject in both roles.
func (e *Env) Run(ctx context.Context, name string) error {
	g, err := groupOf(name)
	if err != nil {
		return err
	}
	for _, r := range []role{requester, responder} {
		if err := e.inLanes(ctx, r, g.lanes(e), g.jobs(e, r)); err != nil {
			return err
		}
	}
	return nil
}

// List returns the rows of a group in the order in which they are run. It needs no peers.
func (e *Env) List(name string) (rows []Row, err error) {
	g, err := groupOf(name)
	if err != nil {
		return nil, err
	}
	for _, r := range []role{requester, responder} {
		for _, j := range e.chosen(g.jobs(e, r)) {
			rows = append(rows, j.rows...)
		}
	}
	return rows, nil
}

// bothFamilies are IPv4 and IPv6.
var bothFamilies = []peer.Family{peer.V4, peer.V6}
