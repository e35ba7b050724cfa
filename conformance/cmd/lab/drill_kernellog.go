package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/lab"
)

// kernel is what the check of its log needs of a guest: a lab.Guest has it.
type kernel interface {
	KernelTrouble(context.Context) ([]lab.Trouble, error)
	RearmWarnings(context.Context) error
}

// kernelLog reads the log of a guest's kernel after each drill.
type kernelLog struct {
	k    kernel
	read int // complaints before this drill
}

// check fails a drill during which the kernel complained of something that the script has no "logs"
// line for, and one without the warning that its script has one for.
func (l *kernelLog) check(ctx context.Context, r *drill.Result, profile drill.Profile) {
	all, err := l.k.KernelTrouble(ctx)
	if err == nil && len(all) < l.read {
		err = fmt.Errorf("%d complaints of before are gone", l.read-len(all))
	}
	if err != nil {
		spoil(r, drill.Broken, fmt.Sprintf("the kernel's log: %v", err))
		return
	}
	fresh := all[l.read:]
	l.read = len(all)
	if len(fresh) > 0 {
		if err := l.k.RearmWarnings(ctx); err != nil {
			spoil(r, drill.Broken, fmt.Sprintf("the kernel's warnings, to be printed again: %v", err))
		}
	}
	expected := r.Drill.Logs(profile)
	for _, x := range fresh {
		if !slices.Contains(expected, x.Warning()) {
			spoil(r, drill.Fail, fmt.Sprintf("the kernel logged: %v", x))
		}
	}
	for _, place := range expected {
		logged := slices.ContainsFunc(fresh, func(x lab.Trouble) bool { return x.Warning() == place })
		if !logged && r.Verdict != drill.Skip {
			spoil(r, drill.Fail, "the kernel did not log the warning of "+place)
		}
	}
}

// spoil gives a result another verdict.
func spoil(r *drill.Result, v drill.Verdict, text string) {
	r.Verdict = v
	r.Text = strings.TrimPrefix(r.Text+"; "+text, "; ")
}
