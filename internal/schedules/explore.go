package schedules

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// World is a state of what is explored. A is what can happen.
type World[A fmt.Stringer] interface {
	// Hash names the state: two worlds of one hash have the same future.
	Hash() uint64
	// Actions are what can happen next. over says that nothing has to: the state is an end, at
	// which Final must hold.
	Actions() (all []A, over bool)
	// Do makes an action happen. The error says which rule it broke.
	Do(A) error
	// Final returns which rule an end breaks. It is called last.
	Final() error
}

// closer is a World that holds what the collector does not free.
type closer interface{ Close() }

func end[W any](w W) {
	if c, ok := any(w).(closer); ok {
		c.Close()
	}
}

// Coverage is what a search has seen.
type Coverage struct {
	Programs  int
	States    int
	Schedules float64 // ways from the beginning to an end; counted by state, not walked
	Depth     int     // actions of the longest schedule that was walked
	Cut       bool    // a bound ended the search before all was seen
	Took      time.Duration
}

// Add adds another search.
func (c *Coverage) Add(d Coverage) {
	c.Programs += d.Programs
	c.States += d.States
	c.Schedules += d.Schedules
	c.Depth = max(c.Depth, d.Depth)
	c.Cut = c.Cut || d.Cut
	c.Took += d.Took
}

func (c Coverage) all() string {
	if c.Cut {
		return "not all"
	}
	return "all"
}

func (c Coverage) String() string {
	return fmt.Sprintf("%s: %d states, %.3g schedules of up to %d actions, %v", c.all(), c.States,
		c.Schedules, c.Depth, c.Took.Round(time.Millisecond))
}

// Row returns the last columns of a table: depth, states, schedules, time, and whether that is all.
func (c Coverage) Row() string {
	return fmt.Sprintf("%d | %d | %.2g | %v | %s |\n", c.Depth, c.States, c.Schedules,
		c.Took.Round(10*time.Millisecond), c.all())
}

// Violation is a schedule that breaks a rule.
type Violation struct {
	Err    error
	States int    // that were met before
	Trace  string // the schedule, and what the world logged
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%v\nafter %d states, by this schedule:\n%s", v.Err, v.States, v.Trace)
}

func (v *Violation) Unwrap() error { return v.Err }

// Explore searches all that can follow in the world that begin makes. It makes many, all the same,
// and calls Close of those that have it. What a world writes to log, if that is not nil, is shown
// with a violation. The search ends after most states; 0 is no bound.
//
// A schedule that comes back to a state of its own is a violation: it would never end.
func Explore[A fmt.Stringer, W World[A]](begin func(log io.Writer) W, most int) (Coverage, *Violation) {
	s := &search[A, W]{begin: begin, most: most, met: map[uint64]float64{}}
	start := time.Now()
	w := begin(nil)
	n, v := s.visit(w)
	end(w)
	return Coverage{Programs: 1, States: len(s.met), Schedules: n, Depth: s.depth, Cut: s.cut, Took: time.Since(start)},
		v
}

type search[A fmt.Stringer, W World[A]] struct {
	begin func(io.Writer) W
	met   map[uint64]float64 // how many schedules a state has; -1 while they are walked
	path  []A
	depth int
	most  int
	cut   bool
}

// visit explores all that can follow, and returns how many schedules that are. It uses up w.
func (s *search[A, W]) visit(w W) (float64, *Violation) {
	h := w.Hash()
	if n, ok := s.met[h]; ok {
		if n < 0 {
			return 0, s.violation(fmt.Errorf("a state comes again: this goes on for ever"))
		}
		return n, nil
	}
	if s.most > 0 && len(s.met) >= s.most {
		s.cut = true
		return 0, nil
	}
	s.met[h] = -1
	s.depth = max(s.depth, len(s.path))
	acts, over := w.Actions()
	n := 0.0
	if over {
		n = 1
		if err := w.Final(); err != nil {
			return 0, s.violation(err)
		}
	} else if len(acts) == 0 {
		return 0, s.violation(fmt.Errorf("nothing can happen, and something has to"))
	}
	for i, a := range acts {
		again := over || i > 0 // the first one has the world itself
		if again {
			w = s.begin(nil)
			for _, b := range s.path {
				_ = w.Do(b)
			}
		}
		s.path = append(s.path, a)
		if err := w.Do(a); err != nil {
			return 0, s.violation(err)
		}
		m, v := s.visit(w)
		if again {
			end(w)
		}
		if v != nil {
			return 0, v
		}
		n += m
		s.path = s.path[:len(s.path)-1]
	}
	s.met[h] = n
	return n, nil
}

// violation plays the schedule once more, for its trace.
func (s *search[A, W]) violation(err error) *Violation {
	var b strings.Builder
	w := s.begin(&b)
	for _, a := range s.path {
		fmt.Fprintf(&b, "%v\n", a)
		_ = w.Do(a)
	}
	end(w)
	return &Violation{Err: err, States: len(s.met), Trace: b.String()}
}
