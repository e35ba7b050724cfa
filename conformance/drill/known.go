package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Known is an implementation that is known to do what was seen, and the lines of the script that
// say so.
type Known struct {
	Profile    Profile
	Deviations []Deviation
}

// Tried reports whether the scripts of this package know an implementation: all names without a
// version, and the versions that some script names.
func Tried(p Profile) bool {
	return !strings.Contains(string(p), "-") || slices.Contains(tried(), p)
}

// Versions are the versions of an implementation that scripts of this package name, but for single
// builds of one ("rxe-6.1-170").
func Versions(of Profile) (list []Profile) {
	for _, p := range tried() {
		if p != of && p.is(of) && strings.Count(string(p), "-") == 1 {
			list = append(list, p)
		}
	}
	return list
}

var tried = sync.OnceValue(func() []Profile {
	var all []Profile
	for _, d := range List() {
		all = append(all, d.names()...)
	}
	slices.Sort(all)
	return slices.Compact(all)
})

// names are the profiles that a script names, each once.
func (d *Drill) names() (all []Profile) {
	for _, x := range d.Deviations {
		all = append(all, x.For)
	}
	var in func([]step)
	in = func(list []step) {
		for i := range list {
			all = append(append(all, list[i].only...), list[i].not...)
			in(list[i].body)
		}
	}
	in(d.steps)
	slices.Sort(all)
	return slices.Compact(all)
}

// root is the implementation without its version.
func (p Profile) root() Profile {
	name, _, _ := strings.Cut(string(p), "-")
	return Profile(name)
}

// alike plays a drill that has failed as each implementation is known to be that the script says
// something of, but for one, and returns those that would have passed.
func alike(ctx context.Context, d *Drill, t Target, but Profile, opt Options) (list []Known) {
	for _, q := range d.names() {
		// "rxe" of a drill that has lines for "rxe-6.1", too, is every other version.
		if q == but || len(d.Deviates(q)) == 0 || ctx.Err() != nil {
			continue
		}
		if play(ctx, d, t, q, opt).Verdict == Pass {
			list = append(list, Known{q, d.Deviates(q)})
		}
	}
	return list
}

// unlike adds, to a drill that has failed by the specification, the implementations that are known
// to do what was seen. A version of an implementation that nobody has tried may do what others of
// it are known to do: it deviates as they do.
func (r Result) unlike(ctx context.Context, d *Drill, t Target, opt Options) Result {
	own := t.Profile()
	r.Like = alike(ctx, d, t, own, opt)
	if !Tried(own) {
		for _, k := range r.Like {
			if k.Profile.root() == own.root() {
				r.Verdict, r.Profile, r.Deviations = Deviates, k.Profile, k.Deviations
				r.Text = fmt.Sprintf("as %s is known to: %s (%s has not been tried before)", k.Profile,
					texts(k.Deviations), own)
				return r
			}
		}
		r.Text += fmt.Sprintf("\n%s has not been tried before", own)
		if list := Versions(own.root()); len(list) > 0 {
			r.Text += fmt.Sprintf(" (%s have)", joined(list))
		}
	}
	r.Text += "\n" + r.KnownText()
	return r
}

func joined(list []Profile) string {
	var names []string
	for _, p := range list {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// KnownText says who is known to do what was seen in a drill that failed, in a line for each.
func (r Result) KnownText() string {
	d := r.Drill
	var lines []string
	for _, k := range r.Like {
		lines = append(lines, fmt.Sprintf("%s is known to do this: %s", k.Profile, texts(k.Deviations)))
	}
	if len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	var others []Profile
	for _, x := range d.Deviations {
		others = append(others, x.For)
	}
	slices.Sort(others)
	if others = slices.Compact(others); len(others) > 0 {
		return "nobody is known to do this (the drill knows what " + joined(others) + " does)"
	}
	return "nobody is known to do this"
}
