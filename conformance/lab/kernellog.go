package lab

import (
	"context"
	"slices"
	"strings"
)

// Trouble is a complaint of a kernel of itself: the lines of its log that say so, the first one
// first. A "Call Trace" belongs to the complaint that it follows.
type Trouble []string

// String returns the lines.
func (t Trouble) String() string { return strings.Join(t, "\n") }

// warningMark is what the kernel prints before the place of a WARN_ON, and warningAt what comes
// before that place.
const (
	warningMark = "WARNING:"
	warningAt   = " at "
)

// Warning returns the place in the kernel's source that a complaint is a warning of: file, line and
// function, as in "drivers/net/x.c:7 x_open". It is empty for complaints of another kind, and for
// warnings that say no place.
func (t Trouble) Warning() string {
	if len(t) == 0 {
		return ""
	}
	_, text, is := strings.Cut(t[0], warningMark)
	_, place, found := strings.Cut(text, warningAt)
	place, _, offset := strings.Cut(place, "+0x")
	if !is || !found || !offset {
		return ""
	}
	return place
}

// troubleMarks begin a complaint; callTrace is part of one, or one by itself.
var troubleMarks = []string{"BUG:", warningMark, "Oops", "general protection", "rcu: INFO", "soft lockup"}

const (
	callTrace = "Call Trace"
	endTrace  = "---[ end trace"
)

// troubles finds the complaints in a kernel's log.
func troubles(log string) (list []Trouble) {
	open := false // the last complaint of list has not ended yet
	for line := range strings.Lines(log) {
		line = strings.TrimRight(line, "\r\n")
		has := func(mark string) bool { return strings.Contains(line, mark) }
		switch {
		case has(endTrace):
			open = false
		case slices.ContainsFunc(troubleMarks, has), has(callTrace) && !open:
			list, open = append(list, Trouble{line}), true
		case has(callTrace):
			last := &list[len(list)-1]
			*last = append(*last, line)
		}
	}
	return list
}

// KernelTrouble returns what the guest's kernel complained of since it was booted: BUG, WARNING,
// Oops, stalls. Hardly a test should cause any.
func (g *Guest) KernelTrouble(ctx context.Context) ([]Trouble, error) {
	out, err := g.Run(ctx, "dmesg")
	if err != nil {
		return nil, err
	}
	return troubles(out), nil
}

// RearmWarnings has the guest's kernel print those warnings again that it prints once only.
func (g *Guest) RearmWarnings(ctx context.Context) error {
	const script = `set -e
d=/sys/kernel/debug
[ -e $d/clear_warn_once ] || mount -t debugfs none $d
echo 1 > $d/clear_warn_once
`
	_, err := g.Run(ctx, "sh", "-c", script)
	return err
}
