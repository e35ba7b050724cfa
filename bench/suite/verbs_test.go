package suite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goroce/goroce/bench/report"
	"github.com/stretchr/testify/require"
)

func TestVerbsValues(t *testing.T) {
	const bw = ` #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      5000             1294.96            100.00 		   0.005240
---`
	const lat = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 64      1000          1.00           2.00         3.00     	  4.00        	5.00  		6.00   7.00`
	for _, c := range []struct {
		out  string
		pair report.VerbsPair
		want float64
	}{
		{bw, report.VerbsPair{}, 104.8576}, {bw, report.VerbsPair{Small: true}, 0.005240}, {lat,
			report.VerbsPair{Latency: true}, 3},
	} {
		got, err := perftestValue(c.out, &c.pair)
		require.NoError(t, err)
		require.InDelta(t, c.want, got, 1e-9)
	}
	for _, bad := range []string{"", "#bytes", "#bytes\n1 2 3", "#bytes\n1 2 3 x", "#bytes\n 64 5 0 0.00 0"} {
		_, err := perftestValue(bad, &report.VerbsPair{})
		require.Error(t, err, "%q", bad)
	}

	const ucx = "|    Stage     | # iterations |\nFinal:                 300      0.000   500.000   510.000     1953.12     1900.00        2000        1960\n"
	got, err := ucxValue(ucx, true)
	require.NoError(t, err)
	require.InDelta(t, 510., got, 1e-9)
	got, err = ucxValue(ucx, false)
	require.NoError(t, err)
	require.InDelta(t, 1992.2944, got, 1e-9)
	_, err = ucxValue("UCX  ERROR no usable transports", false)
	require.Error(t, err)
}

// A note is one line, whatever a program prints.
func TestLastLine(t *testing.T) {
	for out, want := range map[string]string{"": "", "\n\n": "",
		"a table\nof lines\n  Failed status 12 \n\n": "Failed status 12",
		strings.Repeat("x", 1000):                    strings.Repeat("x", 200)} {
		require.Equal(t, want, lastLine(out))
	}
}

// What was not built is said with what makes it.
func TestVerbsMissing(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(bin, "verbs"), 0o755))
	for _, n := range verbsNeeds {
		why := verbsMissing(bin)
		require.Contains(t, why, n.file)
		require.Contains(t, why, n.by)
		require.NoError(t, os.WriteFile(filepath.Join(bin, n.file), nil, 0o755))
	}
	why := verbsMissing(bin)
	require.Condition(t, func() bool { return why == "" || why == "perftest is not installed" })
}

// A comparison is of two figures of one round; one that fails adds nothing.
func TestVerbsRound(t *testing.T) {
	value := func(v float64, err error) func(context.Context) (float64, error) {
		return func(context.Context) (float64, error) { return v, err }
	}
	x := comparison{x: report.XOwn, unit: "MB/s", ours: value(950, nil), with: value(1000, nil)}
	require.NoError(t, x.round())
	require.InDelta(t, 0.95, x.c.Value(report.XOwn), 1e-9)
	broken := errors.New("status 12")
	for _, f := range []*comparison{{ours: value(0, broken), with: value(1, nil)}, {ours: value(1, nil),
		with: value(0, broken)}} {
		require.ErrorIs(t, f.round(), broken)
		require.Empty(t, f.c.Figures)
	}
}
