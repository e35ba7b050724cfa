package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/lab"
)

// fakeKernel complains when it is told to, and prints a warning once until it is rearmed.
type fakeKernel struct {
	log     []lab.Trouble
	rearmed int
	err     error
}

func (k *fakeKernel) KernelTrouble(context.Context) ([]lab.Trouble, error) { return k.log, k.err }

func (k *fakeKernel) RearmWarnings(context.Context) error {
	k.rearmed++
	return nil
}

// A drill is held to the warnings that its script says it makes the kernel log, no more and no
// less, on that kernel.
func TestKernelLog(t *testing.T) {
	d, err := drill.Parse("x.drill", []byte("title x\nclause IBTA 1\nlogs rxe-6.1 drivers/net/x.c:7 x_open\nqp rc\n"))
	require.NoError(t, err)
	const known, other = "WARNING: CPU: 0 PID: 1 at drivers/net/x.c:7 x_open+0x1/0x2 [x]",
		"WARNING: CPU: 0 PID: 1 at drivers/net/x.c:8 x_open+0x1/0x2 [x]"
	k := &fakeKernel{log: []lab.Trouble{{"BUG: of before"}}}
	l := &kernelLog{k: k, read: 1}
	for _, c := range []struct {
		about   string
		profile drill.Profile
		before  drill.Verdict
		logged  []string
		want    drill.Verdict
		text    string
	}{
		{"as it says", "rxe-6.1", drill.Pass, []string{known}, drill.Pass, ""},
		{"a known difference, too", "rxe-6.1", drill.Deviates, []string{known}, drill.Deviates, ""},
		{"another kernel without it", "rxe-6.12", drill.Pass, nil, drill.Pass, ""},
		{"another kernel with it", "rxe-6.12", drill.Pass, []string{known}, drill.Fail, "the kernel logged: " + known},
		{"another line", "rxe-6.1", drill.Pass, []string{known, other}, drill.Fail, "the kernel logged: " + other},
		{"none", "rxe-6.1", drill.Pass, nil, drill.Fail,
			"the kernel did not log the warning of drivers/net/x.c:7 x_open"},
		{"not played", "rxe-6.1", drill.Skip, nil, drill.Skip, ""},
	} {
		rearmed := k.rearmed
		for _, line := range c.logged {
			k.log = append(k.log, lab.Trouble{line, "Call Trace:"})
		}
		r := drill.Result{Drill: d, Verdict: c.before}
		l.check(t.Context(), &r, c.profile)
		require.Equal(t, c.want, r.Verdict, c.about)
		if c.text == "" {
			require.Empty(t, r.Text, c.about)
		} else {
			require.Contains(t, r.Text, c.text, c.about)
		}
		require.Equal(t, len(c.logged) > 0, k.rearmed > rearmed, c.about)
	}

	// A log that cannot be read, or has become shorter, says nothing of the drill.
	for _, broken := range []*kernelLog{{k: &fakeKernel{err: errors.New("gone")}}, {k: &fakeKernel{}, read: 1}} {
		r := drill.Result{Drill: d, Verdict: drill.Pass}
		broken.check(t.Context(), &r, "rxe-6.1")
		require.Equal(t, drill.Broken, r.Verdict)
		require.Contains(t, r.Text, "gone")
	}
}
