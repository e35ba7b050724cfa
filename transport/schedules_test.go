package transport_test

import (
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
)

var (
	everyFlag  = flag.Bool("every", false, "TestEverySchedule: all programs, for hours")
	depthFlag  = flag.Int("depth", 0, "TestEverySchedule: longest schedule, in actions; 0 for no bound")
	statesFlag = flag.Int("states", 0,
		"TestEverySchedule: most states of a program, whose search is then not complete; 0 for no bound")
	faultsFlag = flag.String("faults", "",
		"TestEverySchedule: lost,duplicated,overtaken,early for every program, as in 2,1,1,1")
	coveredFlag = flag.String("covered", "",
		"TestEverySchedule: write what was covered into this `file`, program by program, and leave out what is there already")
)

// TestEverySchedule plays small programs under every schedule. Two engines and a wire are all the
// state there is: the engine has no clock, goroutine or source of randomness. In each state every
// action is tried that can happen next: deliver, lose, duplicate or overtake a packet, let a timer
// run, also while packets are still on their way, post the next request or receive, let an engine
// send, look at a completion queue, end a queue pair and make it again. A state that was met before
// is not entered again, nor is one that is the mirror image of another.
//
// What is bounded is how many packets are lost, duplicated and overtaken and how many timers run
// early, by the program's budget. Within it the search is complete.
//
// The oracle is in schedules_oracle_test.go. A failure prints its schedule.
func TestEverySchedule(t *testing.T) {
	seeds.Slow(t)
	if !*everyFlag {
		seeds.Long(t)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // little is alive, and much is made
	var sum coverage
	table := readCovered(t, *coveredFlag)
	var names []string
	costs := map[string]string{}
	for _, p := range schedulePrograms() {
		if !p.always && !*everyFlag || table.has(p) {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			c := explore(t, p)
			t.Log(c)
			if c.cut == 0 && p.always && *faultsFlag == "" && *depthFlag == 0 {
				names = append(names, p.name)
				costs[p.name] = c.costs()
			}
			sum.add(c)
			table.add(t, p, c)
		})
	}
	t.Logf("%d programs: %v", sum.programs, sum)
	if !t.Failed() {
		checkCosts(t, names, costs)
	}
}

// coverage is what a search has seen.
type coverage struct {
	programs, states, schedules, actions, depth, cut int
	took                                             time.Duration
	cost                                             cost
}

func (c *coverage) add(d coverage) {
	c.programs += d.programs
	c.states += d.states
	c.schedules += d.schedules
	c.actions += d.actions
	c.cut += d.cut
	c.depth = max(c.depth, d.depth)
	c.took += d.took
}

func (c coverage) String() string {
	s := fmt.Sprintf("%d states, %d ends, %d actions, longest schedule %d, %v", c.states, c.schedules,
		c.actions, c.depth, c.took.Round(time.Millisecond))
	if c.cut > 0 {
		s += fmt.Sprintf(", %d cut", c.cut)
	}
	return s
}

// search is a depth-first search over the schedules of one program.
type search struct {
	t    testing.TB
	p    *program
	seen map[uint64]int // shortest schedule that led there
	path []action
	most int // states
	hash stateHash
	coverage
}

func explore(t testing.TB, p *program) coverage {
	s := &search{t: t, p: p, seen: map[uint64]int{}, most: *statesFlag}
	s.programs = 1
	begin := time.Now()
	w := newWorld(t, p)
	for _, a := range p.script {
		if !slices.Contains(w.actions(), a) {
			t.Fatalf("the program begins with steps of which this cannot be: %v", a)
		}
		s.path = append(s.path, a)
		s.check(w, w.do(a))
	}
	s.visit(w)
	s.took = time.Since(begin)
	s.states = len(s.seen)
	return s.coverage
}

// visit explores all that can follow. It uses up w.
func (s *search) visit(w *world) {
	h := w.hash(&s.hash)
	if d, ok := s.seen[h]; ok && (d <= len(s.path) || *depthFlag == 0) {
		return
	}
	if s.most > 0 && len(s.seen) >= s.most {
		s.cut++
		return
	}
	s.seen[h] = len(s.path)
	s.depth = max(s.depth, len(s.path))
	acts := w.actions()
	if len(acts) == 0 {
		s.schedules++
		s.cost.end(w)
		s.check(w, w.final())
		return
	}
	if *depthFlag > 0 && len(s.path) >= *depthFlag {
		s.cut++
		return
	}
	for i, a := range acts {
		if i > 0 { // the first one had the world itself
			w = newWorld(s.t, s.p)
			w.replay(s.path)
		}
		s.path = append(s.path, a)
		s.actions++
		s.check(w, w.do(a))
		s.visit(w)
		s.path = s.path[:len(s.path)-1]
	}
}

// check ends the test with the schedule that led to a violation.
func (s *search) check(w *world, err error) {
	if err == nil {
		return
	}
	s.t.Helper()
	var b strings.Builder
	x := newWorld(s.t, s.p)
	x.log = &b
	fmt.Fprintf(&b, "%v\n", err)
	for _, a := range s.path {
		fmt.Fprintf(&b, "%v\n", a)
		_ = x.do(a)
	}
	s.t.Fatalf("after %d states:\n%s", len(s.seen), &b)
}
