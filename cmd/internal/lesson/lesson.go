package lesson

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// param is a number that the reader can change.
type param struct {
	name     string
	def      int
	min, max int
	help     string
	// refuse says why a value changes nothing in a run with these numbers; "" if it does. given is
	// whether the reader has chosen the value.
	refuse func(v values, given bool) string
}

// ValueError is a number that a lesson does not take.
type ValueError struct {
	Lesson, Name, Value string
	Why                 string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("lesson %s: %s=%s: %s", e.Lesson, e.Name, e.Value, e.Why)
}

// question is one that a lesson asks, with its answer for this run.
type question struct {
	ask    string
	answer func(r *run) string
}

// says is an answer that is the same for all runs.
func says(text string) func(*run) string { return func(*run) string { return text } }

// values are the numbers of a run.
type values map[string]int

// lesson is one idea, or an exercise.
type lesson struct {
	name, title string
	after       []string // the lessons that it builds on
	text        string
	params      []param
	cfg         func(v values) stage.Config
	warm        bool // before play A sends three WRITEs, by which it learns how long a round trip is
	play        func(r *run) error
	// The devices may repeat selectively; else they go back, as the specification has it.
	selective bool
	turns     func(v values) bool       // play starts goroutines, which take turns on the network
	view      func(v values) stage.View // nil: on host A
	chart     bool                      // the queue of the switch and A's rate over time
	questions []question                // the first is asked before the packets are shown
	tries     []string                  // other numbers that are worth a look
	// Of an exercise: an error says why the numbers are not right, the text why they are.
	goal    func(r *run) (string, error)
	choices func(v values) []string // of a quiz: what it can have been
	// The analyser does not tell, and lost packets are not marked, until the goal is reached.
	hidden bool
}

// values reads NAME=VALUE.
func (l *lesson) values(args []string) (values, error) {
	v, given := values{}, map[string]bool{}
	for _, p := range l.params {
		v[p.name] = p.def
	}
	for _, a := range args {
		name, text, ok := strings.Cut(a, "=")
		p := l.param(name)
		if !ok || p == nil {
			return nil, &ValueError{l.name, name, text, "the numbers of this lesson are " + l.paramNames()}
		}
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil || n < int64(p.min) || n > int64(p.max) {
			return nil, &ValueError{l.name, name, text, fmt.Sprintf("a number from %d to %d is expected", p.min, p.max)}
		}
		v[name], given[name] = int(n), true
	}
	for _, p := range l.params {
		if p.refuse != nil {
			if why := p.refuse(v, given[p.name]); why != "" {
				return nil, &ValueError{l.name, p.name, strconv.Itoa(v[p.name]), why}
			}
		}
	}
	return v, nil
}

func (l *lesson) param(name string) *param {
	for i := range l.params {
		if l.params[i].name == name {
			return &l.params[i]
		}
	}
	return nil
}

func (l *lesson) paramNames() string {
	names := make([]string, 0, len(l.params))
	for _, p := range l.params {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func (l *lesson) viewOf(v values) stage.View {
	if l.view == nil {
		return stage.At0
	}
	return l.view(v)
}

// perform plays the lesson.
func (l *lesson) perform(v values) (r *run, err error) {
	var cfg stage.Config
	if l.cfg != nil {
		cfg = l.cfg(v)
	}
	if l.turns != nil && l.turns(v) {
		sim.Run(sim.Config{Seed: 1}, func(net *sim.Fabric) {
			cfg.Net = net
			r, err = l.on(cfg, v)
		})
		return r, err
	}
	return l.on(cfg, v)
}

func (l *lesson) on(cfg stage.Config, v values) (*run, error) {
	for i := range cfg.Tuning {
		t := &cfg.Tuning[i]
		t.GoBackN = t.GoBackN || !l.selective
		if t.Congestion.Algorithm == cc.None { // a window that opens would be about something else
			t.MaxUnackedPackets = transport.DefaultMaxUnackedPackets
		}
	}
	s, err := stage.New(cfg)
	if err != nil {
		return nil, err
	}
	r := &run{l: l, v: v, s: s}
	if l.warm {
		err = r.warm()
	}
	if err == nil {
		err = l.play(r)
	}
	if e := s.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = r.check()
	}
	return r, err
}
