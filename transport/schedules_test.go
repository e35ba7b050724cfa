package transport_test

import (
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/schedules"
	"github.com/goroce/goroce/internal/seeds"
)

var (
	everyFlag   = flag.Bool("every", false, "TestEverySchedule: all programs, for hours")
	statesFlag  = flag.Int("states", 0, "TestEverySchedule: most states of a program, whose search is then not complete; 0 for no bound")
	faultsFlag  = flag.String("faults", "", "TestEverySchedule: lost,duplicated,overtaken,early for every program, as in 2,1,1,1")
	coveredFlag = flag.String("covered", "", "TestEverySchedule: write what was covered into this `file`, program by program, and leave out what is there already")
)

// TestEverySchedule plays small programs under every schedule. Two engines and a wire are all the
// state there is: the engine has no clock, goroutine or source of randomness. In each state
// every action is tried that can happen next: deliver, lose, duplicate or overtake a packet, let a timer
// run, also while packets are still on their way, post the next request or receive, let an engine send, look at a
// completion queue, end a queue pair and make it again. A state that was met before is not entered again, nor
// is one that is the mirror image of another.
//
// What is bounded is how many packets are lost, duplicated and overtaken and how many timers run early, by the
// program's budget. Within it the search is complete.
//
// The oracle is in schedules_oracle_test.go. A failure prints its schedule.
func TestEverySchedule(t *testing.T) {
	seeds.Slow(t)
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
			if !c.Cut && p.always && *faultsFlag == "" {
				names = append(names, p.name)
				costs[p.name] = c.costs()
			}
			sum.Add(c.Coverage)
			table.add(t, p, c)
		})
	}
	t.Logf("%d programs: %v", sum.Programs, sum)
	if !t.Failed() {
		checkCosts(t, names, costs)
	}
}

// coverage is what a search has seen, and what the schedules cost.
type coverage struct {
	schedules.Coverage
	cost
}

func (c coverage) String() string {
	s := fmt.Sprintf("%d states, %d ends, %d actions, longest schedule %d, %v", c.States, c.Ends, c.Actions, c.Depth, c.Took.Round(time.Millisecond))
	if c.Cut {
		s += ", not all"
	}
	return s
}

// raceStates is the most states of a program under the race detector, which has nothing to find here.
const raceStates = 50

func explore(t *testing.T, p *program) (c coverage) {
	most := *statesFlag
	if seeds.Race && !*everyFlag {
		most = raceStates
	}
	var names stateHash
	var v *schedules.Violation
	c.Coverage, v = schedules.Explore[action](func(log io.Writer) *world {
		w := newWorld(t, p)
		w.log, w.names, w.cost = log, &names, &c.cost
		return w
	}, most)
	if v != nil {
		t.Fatal(v)
	}
	return c
}
