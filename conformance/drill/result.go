package drill

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is the outcome of a drill.
type Verdict string

// The verdicts.
const (
	Pass     Verdict = "pass"     // as the specification has it
	Deviates Verdict = "deviates" // as the profile of the target has it, and not the specification
	Fail     Verdict = "fail"
	Skip     Verdict = "skip"  // the target lacks something
	Broken   Verdict = "error" // the target, or the way to it, failed
)

// Result is what a run gave.
type Result struct {
	Drill   *Drill
	Target  string
	Verdict Verdict
	// Profile is the one that the verdict was found with: with Deviates the one that is known to
	// deviate so.
	Profile Profile
	// Deviations are set with Deviates.
	Deviations []Deviation
	// Like are the implementations that are known to do what a target did that failed.
	Like []Known
	// Text says why, for all verdicts but Pass; the first line is the shortest answer.
	Text string
	// Expected is the step that the target did not meet first as the specification has it, and Came
	// what it did instead.
	Expected, Came string
	// Ladder shows the packets of the run up to the first difference; with Deviates, that of the
	// run as the specification has it.
	Ladder string
	// Packets are what went over the wire.
	Packets []Datagram
	// Lost is set if the peer, or the way to it, was lost.
	Lost bool
	Took time.Duration // on the target's clock
}

// OK reports whether the target did what is expected of it.
func (r Result) OK() bool { return r.Verdict == Pass || r.Verdict == Deviates || r.Verdict == Skip }

// nothingCame begins what is said of a packet that did not come in time.
const nothingCame = "nothing came within "

// Late reports whether the run failed because a packet did not come in time: a peer on a busy
// machine does that, too.
func (r Result) Late() bool { return r.Verdict == Fail && strings.Contains(r.Text, nothingCame) }

func (r Result) String() string {
	s := fmt.Sprintf("%s on %s: %s", r.Drill.Name, r.Target, r.Verdict)
	if r.Text != "" {
		s += ": " + r.Text
	}
	return s
}

// texts joins the texts of deviations.
func texts(list []Deviation) string {
	var s []string
	for _, d := range list {
		s = append(s, d.Text)
	}
	return strings.Join(s, "; ")
}
