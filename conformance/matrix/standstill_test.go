package matrix

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/stretchr/testify/require"
)

// How long the guest must have stood still to be why an attempt failed.
func TestStandstillOf(t *testing.T) {
	const s, m = time.Second, time.Minute
	for _, c := range []struct {
		took, longest, all time.Duration
		want               string // none: it does not explain the failure
	}{
		{5 * s, 0, 0, ""},
		{5 * s, standstill - 1, 2 * s, ""},
		{5 * s, 950 * time.Millisecond, s, "the guest answered nobody for 0.95 s"},
		{promptly, standstill, standstill, "the guest answered nobody for 0.30 s"},
		{m, s, 14 * s, ""},
		{m, s, 15 * s, "the guest answered nobody for 15.00 s of 60"},
		{4 * m, 10 * s, 60 * s, ""}, // a program that hangs until it is ended
		{4 * m, 110 * s, 110 * s, "the guest answered nobody for 110.00 s of 240"},
	} {
		what, ok := standstillOf(c.took, func() (longest, all time.Duration) { return c.longest, c.all })
		require.Equal(t, c.want, what, "%+v", c)
		require.Equal(t, c.want != "", ok)
	}
}

// attempt is how an attempt of a row goes.
type attempt struct {
	err   error // nil: it passes
	stood bool  // the guest stood still meanwhile
}

// standing is an Env whose guest stands still in the attempts that say so, and what the attempts of
// a row return.
func standing(t *testing.T, list []attempt) (e *Env, next func() error, made *int) {
	e, _, _ = laneEnv()
	e.Wire = ether.New()
	t.Cleanup(e.Wire.Close)
	made = new(int)
	e.StoodStill = func(time.Duration, time.Duration) (longest, all time.Duration) {
		if list[*made-1].stood {
			return time.Second, time.Second
		}
		return 0, 0
	}
	return e, func() error { *made++; return list[*made-1].err }, made
}

// A standstill of the guest gives a row another attempt, and hides nothing: a defect of ours fails
// the row as soon as the guest runs, and bytes that are wrong fail it at once.
func TestStandstillHidesNothing(t *testing.T) {
	slow, defect, bytes := errors.New("no completion"), errors.New("status 10"),
		fmt.Errorf("row: %w", wrong("byte 7 is wrong"))
	for name, c := range map[string]struct {
		list []attempt
		want Result
		made int
	}{
		"passes":                              {[]attempt{{nil, true}}, Pass, 1},
		"a defect, and the guest runs":        {[]attempt{{defect, false}}, Fail, 1},
		"slow, then it passes":                {[]attempt{{slow, true}, {nil, false}}, Pass, 2},
		"slow twice, then it passes":          {[]attempt{{slow, true}, {slow, true}, {nil, true}}, Pass, 3},
		"a defect, and the guest stands once": {[]attempt{{defect, true}, {defect, false}}, Fail, 2},
		"a defect, and the guest stands twice": {[]attempt{{defect, true}, {defect, true}, {defect, false}},
			Fail, 3},
		"slow, then bytes are wrong":                  {[]attempt{{slow, true}, {bytes, true}}, Fail, 2},
		"bytes are wrong, and the guest stands still": {[]attempt{{bytes, true}}, Fail, 1},
		"the guest stands still each time": {[]attempt{{slow, true}, {slow, true}, {slow, true}},
			Inconclusive, 3},
	} {
		check := func(row Row, made int) {
			require.Equal(t, c.want, row.Result, "%s: %+v", name, row)
			require.Equal(t, c.made, made, name)
			require.Equal(t, made > 1, row.Retried != "", name)
			if made > 1 {
				require.Contains(t, row.Retried, "attempt 1 of 3: the guest answered nobody for 1.00 s")
			}
			if c.want != Pass {
				require.Contains(t, row.Detail, c.list[made-1].err.Error())
			}
		}
		// As a row of two peers.
		e, next, made := standing(t, c.list)
		require.NoError(t, e.inLanes(context.Background(), requester, 1,
			[]job{oneRow(Row{Op: name}, func(*pair, *Row) error { return next() })}))
		require.Len(t, e.Report.Rows(), 1)
		check(e.Report.Rows()[0], *made)
		// As a row of programs.
		e, next, made = standing(t, c.list)
		var row Row
		e.attempts(&row, 1, func() outcome {
			if err := next(); err != nil {
				return outcome{detail: err.Error(), result: Fail, wrong: isWrong(err)}
			}
			return outcome{result: Pass}
		})
		check(row, *made)
	}
}

// Of a job with several rows those that passed are not made again, and those that failed are what
// they are at the end.
func TestAttemptsOfSeveralRows(t *testing.T) {
	e, next, made := standing(t, []attempt{{nil, true}, {nil, false}})
	slow := errors.New("no completion")
	rows := func(errs ...error) (out []Row) {
		for i, err := range errs {
			out = append(out, Row{Size: i, MTU: *made}.ended(err))
		}
		return out
	}
	jobs := []job{{rows: make([]Row, 3), run: func(*pair) []Row {
		if next(); *made == 1 {
			return rows(nil, slow, wrong("byte 3"))
		}
		return rows(slow, nil, nil)
	}}}
	require.NoError(t, e.inLanes(context.Background(), requester, 1, jobs))
	var got []Result
	for _, row := range e.Report.Rows() {
		got = append(got, row.Result)
	}
	require.Equal(t, []Result{Pass, Pass, Fail}, got)
	require.Equal(t, 1, e.Report.Rows()[0].MTU)
	require.Contains(t, e.Report.Rows()[1].Retried, "attempt 1 of 3")
}
