package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/matrix"
)

// fakeMachine is one that only ends.
type fakeMachine struct{ panicked, closed bool }

func (m *fakeMachine) Panicked() bool { return m.panicked }
func (m *fakeMachine) Close()         { m.closed = true }

// newFakeTarget is a target whose machines are fakes, and the number of them.
func newFakeTarget(t *testing.T) (x *target, boots *int) {
	boots = new(int)
	x = &target{im: &lab.Image{Suite: "fake"}, logf: t.Logf, boot: func(ctx context.Context) (*life, error) {
		*boots++
		v := &life{machine: new(fakeMachine)}
		v.ctx, v.end = context.WithCancelCause(ctx)
		return v, nil
	}}
	var err error
	x.now, err = x.boot(t.Context())
	require.NoError(t, err)
	return x, boots
}

// What ran against a machine that died is run again against a new one, and what it had reported is
// taken back.
func TestTargetRunsAgainWhatItsMachineInterrupted(t *testing.T) {
	x, boots := newFakeTarget(t)
	var all matrix.Report
	all.Add(matrix.Row{Op: "of another lane", Result: matrix.Pass})
	runs := 0
	require.NoError(t, x.untilItLives(t.Context(), &all, func(v *life, rows *matrix.Report) error {
		runs++
		rows.Add(matrix.Row{Op: "first", Result: matrix.Pass})
		if runs == 1 {
			v.end(errors.New("the kernel panicked"))
			<-v.ctx.Done()
			return v.ctx.Err()
		}
		rows.Add(matrix.Row{Op: "second", Result: matrix.Pass})
		return nil
	}))
	require.Equal(t, 2, *boots)
	var ops []string
	for _, row := range all.Rows() {
		ops = append(ops, row.Op)
	}
	require.Equal(t, []string{"of another lane", "first", "second"}, ops)
	require.Len(t, x.deaths, 1)
}

// A kernel that ends twice is no accident.
func TestTargetDiesOnceOnly(t *testing.T) {
	x, boots := newFakeTarget(t)
	err := x.untilItLives(t.Context(), new(matrix.Report), func(v *life, _ *matrix.Report) error {
		v.end(errors.New("the kernel panicked"))
		return nil
	})
	require.ErrorContains(t, err, "the kernel panicked")
	require.Equal(t, 1+maxDeaths, *boots)
}

// Lanes that see the same end have one new machine among them, and an error that is none of the
// machine's ends the run.
func TestTargetIsRevivedOnce(t *testing.T) {
	x, boots := newFakeTarget(t)
	dead := x.life()
	dead.end(errors.New("gone"))
	require.NoError(t, x.revive(t.Context(), dead))
	require.NoError(t, x.revive(t.Context(), dead))
	require.Equal(t, 2, *boots)
	require.True(t, dead.machine.(*fakeMachine).closed)

	broken := errors.New("no such program")
	require.ErrorIs(t,
		x.untilItLives(t.Context(), new(matrix.Report), func(*life, *matrix.Report) error { return broken }), broken)
	require.Equal(t, 2, *boots)
}
