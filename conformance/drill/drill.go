package drill

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// Drill is one script.
type Drill struct {
	Name  string // the file's, without its ending
	File  string
	Title string // what it checks, in a sentence
	About []string

	// Authority is what the drill rests on: clauses of the specification ("IBTA 9.7.5.1.2"), and
	// where else the behaviour was seen.
	Authority []Authority
	// Deviations are the known differences from the specification.
	Deviations []Deviation
	// Stops are the implementations whose machine the drill is known to stop.
	Stops []Deviation
	// Warnings are what the drill is known to make a kernel log.
	Warnings []Warning
	Tags     []string
	// Needs are features of a target without which the drill cannot run.
	Needs []Feature

	steps    []step
	profiled bool // some step is for certain profiles only
}

// Authority is a reason to expect a behaviour.
type Authority struct {
	Kind AuthorityKind
	Text string // the clause; or versions, and what was seen
}

// AuthorityKind says who says so.
type AuthorityKind string

// The kinds.
const (
	Clause   AuthorityKind = "clause"   // of the InfiniBand specification
	SeenRxe  AuthorityKind = "rxe"      // seen on the kernel's rdma_rxe
	ConnectX AuthorityKind = "connectx" // published of ConnectX
)

// Deviation is a known difference of an implementation from the specification.
type Deviation struct {
	For  Profile
	Row  int // in docs/rxe.md; 0 if it is not one of those
	Text string
}

// Warning is one that a drill makes the kernel of a target log.
type Warning struct {
	For   Profile
	Place string // in the kernel's source, as its log has it: "drivers/net/x.c:7 x_open"
}

// Feature is what a drill may need of a target.
type Feature string

// The features.
const (
	NeedFlush       Feature = "flush"
	NeedAtomicWrite Feature = "atomic_write"
	NeedCM          Feature = "cm"   // a listener of RDMA-CM at the peer
	NeedIPv6        Feature = "ipv6" // both ends have IPv6 addresses
	NeedStranger    Feature = "stranger"
	NeedWindow      Feature = "window"     // memory windows of type 2
	NeedFlowLabel   Feature = "flow_label" // the peer sets the flow label of IPv6, and the drill's end shows it
	NeedUplink      Feature = "uplink"     // the peer's own machine can be told to drop what is to leave
)

// quirkRxeFlush is a peer whose FLUSH has rxe's ICRC: see ib.ICRC.ChecksumFlushRxe.
const quirkRxeFlush Feature = "rxe_flush"

var features = []Feature{NeedFlush, NeedAtomicWrite, NeedCM, NeedIPv6, NeedStranger, NeedWindow,
	NeedFlowLabel, NeedUplink}

// Profile names a set of expectations. A longer name is a variant of a shorter one: what is
// for "rxe" holds for "rxe-6.1", too.
type Profile string

// The profiles. Spec is the specification itself.
const (
	Spec     Profile = "spec"
	Goroce   Profile = "goroce"
	Rxe      Profile = "rxe"
	CX       Profile = "connectx"
	rxeDash          = string(Rxe) + "-"
	allKnown         = "spec, goroce, rxe, rxe-VERSION, connectx"
)

// is reports whether what is for q holds for p.
func (p Profile) is(q Profile) bool {
	return p == q || strings.HasPrefix(string(p), string(q)+"-")
}

func (p Profile) known() bool {
	return slices.Contains([]Profile{Spec, Goroce, Rxe, CX}, p) || strings.HasPrefix(string(p), rxeDash)
}

// Deviates returns what is known of how a profile differs in this drill.
func (d *Drill) Deviates(p Profile) (list []Deviation) {
	for _, x := range d.Deviations {
		if p.is(x.For) {
			list = append(list, x)
		}
	}
	return list
}

// StopsMachine returns what is known of how a drill stops the machine of a profile.
func (d *Drill) StopsMachine(p Profile) (list []Deviation) {
	for _, x := range d.Stops {
		if p.is(x.For) {
			list = append(list, x)
		}
	}
	return list
}

// Dangerous reports whether a drill is known to stop the machine of some version of an
// implementation.
func (d *Drill) Dangerous(p Profile) bool {
	return slices.ContainsFunc(d.Stops, func(x Deviation) bool { return x.For.root() == p.root() })
}

// Logs returns the places of the warnings that the kernel of a profile is known to log because of
// this drill. What is said of a single build is in place of what is said of its version.
func (d *Drill) Logs(p Profile) (places []string) {
	var own []string
	for _, x := range d.Warnings {
		switch {
		case p == x.For:
			own = append(own, x.Place)
		case p.is(x.For):
			places = append(places, x.Place)
		}
	}
	if len(own) > 0 {
		return own
	}
	return places
}

// Has reports whether the drill has a tag.
func (d *Drill) Has(tag string) bool { return slices.Contains(d.Tags, tag) }

//go:embed scripts/*.drill
var scripts embed.FS

var list = sync.OnceValue(func() (all []*Drill) {
	names, err := fs.Glob(scripts, "scripts/*.drill")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, n := range names {
		b, err := scripts.ReadFile(n)
		if err == nil {
			var d *Drill
			if d, err = Parse(path.Base(n), b); err == nil {
				all = append(all, d)
			}
		}
		if err != nil {
			panic(fmt.Sprintf("drill: a script of the package: %v", err)) // TestScripts has parsed them all
		}
	}
	return all
})

// List returns the drills of this package in the order of their names.
func List() []*Drill { return slices.Clone(list()) }
