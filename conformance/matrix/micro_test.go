package matrix

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeasured(t *testing.T) {
	m := measured{"cnps": 3}
	m.note("none", nil)
	m.note("nak", []time.Duration{4 * time.Millisecond, 1500 * time.Nanosecond, 2 * time.Microsecond})
	require.Equal(t, "cnps 3, nak_max_us 4000, nak_p50_us 2", m.String())

	var b bytes.Buffer
	r := new(Report)
	r.Add(Row{Kernel: "x", Link: "udp", Group: "micro", Op: "CNP", Role: "requester", Result: Pass, Measured: m})
	r.WriteTable(&b)
	require.Contains(t, b.String(), "MEASURED\n  x udp, CNP as requester: cnps 3, nak_max_us 4000, nak_p50_us 2\n")
	require.Contains(t, b.String(), "\n1 passed, 0 failed, 0 skipped\n")
}

// After so many losses in a row nothing is tried any more; a success in between begins anew.
func TestTolerance(t *testing.T) {
	var none *Tolerance
	require.NoError(t, none.Given())
	tol, gone := new(Tolerance), errors.New("gone")
	for range lostInARow - 1 {
		tol.Lost(gone)
	}
	require.NoError(t, tol.Given())
	tol.Found()
	for range lostInARow - 1 {
		tol.Lost(gone)
	}
	require.NoError(t, tol.Given())
	tol.Lost(gone)
	require.ErrorIs(t, tol.Given(), gone)
	tol.Found() // of a row that began before: too late
	require.ErrorIs(t, tol.Given(), gone)
}

// A lost peer fails the rows with the reason and does not end the run; rows that were not asked for are not run.
func TestTolerantLanes(t *testing.T) {
	e, a, b := laneEnv()
	e.Tolerant = new(Tolerance)
	b.max = 1
	e.Choose = func(row Row) bool { return row.Op != "unwanted" }
	pass := func(row Row) job {
		return oneRow(row, func(*pair, *Row) error { return nil })
	}
	require.NoError(t, e.inLanes(t.Context(), requester, 1, []job{pass(Row{Op: "1"}), pass(Row{Op: "unwanted"})}))
	require.NoError(t, e.inLanes(t.Context(), requester, 1, []job{pass(Row{Op: "2"}), pass(Row{Op: "3"})}))
	var got []string
	for _, row := range e.Report.Rows() {
		got = append(got, row.Op+" "+string(row.Result)+" "+row.Detail)
	}
	require.Equal(t, []string{"1 pass ", "2 fail blank: no more sessions", "3 fail blank: no more sessions"}, got)
	require.Zero(t, a.open+b.open, "sessions left open")
}

// A counter that the kernel shows late is waited for; one that the device lacks is not.
func TestCountersLate(t *testing.T) {
	reads := 0
	late := func() (map[string]uint64, error) {
		reads++
		return map[string]uint64{"packet_seq_err": 7 + uint64(reads/3)}, nil
	}
	before := map[string]uint64{"packet_seq_err": 7}
	name, n, err := counted(late, before, []string{"rcvd_seq_err", "packet_seq_err"}, 1)
	require.NoError(t, err)
	require.Equal(t, "packet_seq_err", name)
	require.Equal(t, 1, n)
	require.Equal(t, 3, reads)

	name, _, err = counted(late, before, []string{"rcvd_seq_err"}, 1)
	require.NoError(t, err)
	require.Empty(t, name)
}
