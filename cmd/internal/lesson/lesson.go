package lesson

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/verbs"
)

// param is a number that the reader can change.
type param struct {
	name     string
	def      int
	min, max int
	help     string
}

// question is one that a lesson asks, with its answer for the numbers of this run.
type question struct {
	ask    string
	answer func(v values) string
}

// values are the numbers of a run.
type values map[string]int

// lesson is one idea.
type lesson struct {
	name, title string
	text        string
	params      []param
	cfg         func(v values) stage.Config
	play        func(r *run) error
	view        func(v values) stage.View // nil: on host A
	questions   []question
	next        string // a change worth a try
}

// run is a lesson under way.
type run struct {
	v values
	s *stage.Stage
	// said is what the hosts saw of it: completions, memory.
	said []string
}

func (r *run) say(format string, args ...any) { r.said = append(r.said, fmt.Sprintf(format, args...)) }

// do posts work requests on A and says how they ended.
func (r *run) do(wrs ...verbs.SendWR) error {
	wcs, err := r.s.Do(0, wrs...)
	for i, wc := range wcs {
		r.completed(i+1, len(wrs), wc)
	}
	return err
}

func (r *run) completed(i, n int, wc verbs.WC) {
	which := ""
	if n > 1 {
		which = fmt.Sprintf(" %d", i)
	}
	r.say("At %.1f us host A has completion%s: %v.", float64(r.s.Net.Now())/1000, which, wc.Status)
}

// warm sends three WRITEs, by which A learns how long a round trip is.
func (r *run) warm() error {
	for range 3 {
		if _, err := r.s.Do(0, r.s.Write(0, 64)); err != nil {
			return err
		}
	}
	return nil
}

// parse reads NAME=VALUE.
func (l *lesson) parse(args []string) (values, error) {
	v := values{}
	for _, p := range l.params {
		v[p.name] = p.def
	}
	for _, a := range args {
		name, text, ok := strings.Cut(a, "=")
		p := l.param(name)
		if !ok || p == nil {
			return nil, fmt.Errorf("%q is not one of the numbers of this lesson: %s", a, l.paramNames())
		}
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil || int(n) < p.min || int(n) > p.max {
			return nil, fmt.Errorf("%s=%s: a number from %d to %d is expected", name, text, p.min, p.max)
		}
		v[name] = int(n)
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

// perform plays the lesson.
func (l *lesson) perform(v values) (*run, error) {
	var cfg stage.Config
	if l.cfg != nil {
		cfg = l.cfg(v)
	}
	s, err := stage.New(cfg)
	if err != nil {
		return nil, err
	}
	r := &run{v: v, s: s}
	err = l.play(r)
	if e := s.Close(); err == nil {
		err = e
	}
	return r, err
}
