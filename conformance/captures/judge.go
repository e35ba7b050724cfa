package captures

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goroce/goroce/roce/analyse"
)

// Verdict is what the analyser found in one capture, and what is wrong with that.
type Verdict struct {
	Report *analyse.Report
	Found  []string // kinds with what they may be else, and their first frame
	Wrong  []string
}

// Explain analyses a capture of a record and judges the report.
func (r *Record) Explain(dir string, view int) (*Verdict, error) {
	f, err := os.Open(r.Capture(dir, view))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rep, _, err := analyse.Read(f, analyse.Options{})
	if err != nil {
		return nil, err
	}
	return r.Judge(view, rep), nil
}

// Judge holds a report of a view against the record.
func (r *Record) Judge(view int, rep *analyse.Report) *Verdict {
	v := &Verdict{Report: rep}
	left := slices.Clone(rep.Findings)
	for _, f := range rep.Findings {
		v.Found = append(v.Found, fmt.Sprintf("%s@%d", kindsOf(f), f.Frames[0]))
	}
	for _, want := range r.Want[view] {
		i := slices.IndexFunc(left,
			func(f *analyse.Finding) bool { return f.Has(analyse.Kind(want)) && r.explains(view, f) })
		if i < 0 {
			v.Wrong = append(v.Wrong, fmt.Sprintf("%s is not found at the right packet (%s)", want, r.places(view)))
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, f := range left {
		v.Wrong = append(v.Wrong,
			fmt.Sprintf("nobody has injected %s in packet %d: %s", kindsOf(f), f.Frames[0], f.Text))
	}
	return v
}

func kindsOf(f *analyse.Finding) string {
	s := string(f.Kind)
	for _, k := range f.Or {
		s += "|" + string(k)
	}
	return s
}

// wholeHost are kinds that are about a host or a path, and no one PSN.
var wholeHost = []analyse.Kind{analyse.PeerGone, analyse.ICRCRewritten, analyse.CMLost, analyse.CMRejected,
	analyse.StaleConnection, analyse.CreditsExhausted, analyse.RateCut}

// explains reports whether a finding is at a packet that something was done to.
func (r *Record) explains(view int, f *analyse.Finding) bool {
	first, psn := f.Frames[0], uint32(f.PSN)
	for _, x := range r.Injected {
		at := x.At[view]
		if overtook := len(at.Frames) > 0 && at.Next != 0; overtook && view == x.Sender && first == at.Next &&
			psn == at.NextPSN {
			return true // it is what the other side could not take
		}
		if !slices.Contains(wholeHost, f.Kind) && x.PSN != psn {
			continue
		}
		switch {
		case slices.Contains(at.Frames, first), first == at.Asked, first == at.Again,
			len(at.Frames) == 0 && first == at.Next:
			return true
		}
	}
	return false
}

// places says where the injected packets are.
func (r *Record) places(view int) string {
	var all []string
	for _, x := range r.Injected {
		all = append(all, fmt.Sprintf("%s of PSN %d: %+v", x.What, x.PSN, x.At[view]))
	}
	return strings.Join(all, "; ")
}
