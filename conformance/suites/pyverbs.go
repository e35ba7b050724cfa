package suites

import (
	"context"
	"errors"
	"strings"

	"github.com/goroce/goroce/conformance/programs"
)

// pyverbs is rdma-core's own test suite, of its newest release. "lab interop-verbs" runs those of
// Debian's releases.
func pyverbs() Suite {
	return Suite{
		Name:    "pyverbs",
		About:   "rdma-core's tests, in Python. `make interop-verbs` runs those of older releases",
		Package: "python3-pyverbs", Version: "65.0-1.1", Release: "sid",
		Packages: []string{"python3-pyverbs", "python3", "python3-minimal", "librdmacm1t64",
			"ibverbs-providers", "iproute2", "coreutils", "dash"},
		Run: runPyverbs, RunInGuest: runPyverbsInGuest,
	}
}

func runPyverbs(ctx context.Context, t *Turn) error {
	p, closePlace, err := programs.NewPyverbs(t.Stage)
	if err != nil {
		return err
	}
	p.Plain = t.Site.On == OnNothing
	err = t.pyverbs(ctx, p)
	return errors.Join(err, closePlace(), context.Cause(ctx))
}

func runPyverbsInGuest(ctx context.Context, t *Turn) error {
	root, err := programs.NewGuestRoot(ctx, t.Guest, t.Root)
	if err != nil {
		return err
	}
	return errors.Join(t.pyverbs(ctx, programs.GuestPyverbs{GuestRoot: root}, "--dev", t.Guest.Dev), context.Cause(ctx))
}

// pyverbs runs the tests on a machine.
func (t *Turn) pyverbs(ctx context.Context, m programs.Machine, args ...string) error {
	results, err := programs.RunPyverbs(ctx, m, args...)
	for _, r := range results {
		if strings.Contains(r.Test, t.Only) {
			t.Report(Result{Test: strings.TrimPrefix(r.Test, "tests."), Outcome: Outcome(r.Result),
				Detail: oneLine(r.Detail)})
		}
	}
	return err
}
