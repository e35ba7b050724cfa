package micro

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/matrix"
)

// data is a run against one kernel on one link.
func data() *Data {
	row := func(op, role string, samples map[string][]float64, measured map[string]float64) matrix.Row {
		return matrix.Row{Kernel: "rxe 6.1", Link: "udp", Group: "micro", Op: op, Role: role,
			Result: matrix.Pass, Samples: samples, Measured: measured}
	}
	return &Data{Command: "go run ./bench/cmd/bench micro", Times: 3, Guests: []string{
		"rxe 6.1: Debian bookworm, kernel 6.1.1",
	}, Rows: []matrix.Row{
		row("NAK latency WRITE", "requester",
			map[string][]float64{"nak_made_us": {500, 300, 400}, "nak_to_resend_us": {7, 5, 6}}, nil),
		row("NAK latency WRITE", "responder",
			map[string][]float64{"nak_made_us": {10}, "nak_to_resend_us": {20000}}, nil),
		row("timeout series", "requester", map[string][]float64{
			"interval1_ms": {16.5, 16.5, 16.5}, "interval2_ms": {67.2, 70, 64}, "interval3_ms": {500},
		}, nil),
		row("CNP for CE", "responder", map[string][]float64{"cnps": {1, 4, 2}}, nil),
		row(noiseOp, "requester", map[string][]float64{victims[0].quiet: {100}, victims[0].lossy: {150}},
			map[string]float64{"noisy_qps": 4, "loss_percent": 2}),
		row(countersOp, "requester", nil,
			map[string]float64{"seq_naks_received_seen": 2, "seq_naks_received_counted": 2, "icrc_errors_seen": 1}),
		row(countersOp, "responder", nil, map[string]float64{"seq_naks_received_seen": 2,
			"seq_naks_received_counted": 1, "icrc_errors_seen": 1, "icrc_errors_counted": 1}),
	}}
}

// Each number goes to the side that it is about.
func TestMarkdown(t *testing.T) {
	page := string(data().Markdown())
	for _, line := range []string{
		"| | goroce udp | rxe 6.1 |",
		"| NAK: WRITE | 10 us (10-10) | 400 us (300-500) |",
		"| sent again: WRITE | 6 us (5-7) | 20 ms (20-20) |",
		"| 1 to 2 | 16.5 | - |",
		"| 2 to 3 | 67.2 (64-70) | - |",
		"| CNPs for a WRITE of 256 packets, all with CE | 2 (1-4) | - |",
		"| sequence NAKs received | 2 | 2; **counts 1** |",
		"| ICRC errors | 1 | 1; no counter |",
		"| WRITE of 64 bytes, to its ACK: others with losses | 150 us (150-150) | - |",
		"Beside it 4 others keep WRITEs of 64 KiB on their way, first without a loss, then with 2 % of their packets lost",
	} {
		require.Contains(t, page, line)
	}
	require.NotContains(t, page, "3 to 4", "one connection of three has got so far")
	require.NotContains(t, page, "cnp-gap.svg", "there is no chart of what nobody has shown")
}

// What is written is what is read again, and makes the same page; charts that are no longer made
// go.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/cnp-gap.svg", nil, 0o644))
	d := data()
	require.NoError(t, d.Write(dir))
	again, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, d, again)
	page, err := os.ReadFile(dir + "/README.md")
	require.NoError(t, err)
	require.Equal(t, string(again.Markdown()), string(page))
	require.NoFileExists(t, dir+"/cnp-gap.svg")
	for _, word := range strings.FieldsFunc(string(page), func(r rune) bool { return r == '(' || r == ')' }) {
		if strings.HasSuffix(word, ".svg") {
			require.FileExists(t, dir+"/"+word)
		}
	}
	require.NoError(t, os.WriteFile(dir+"/"+dataFile, []byte("{"), 0o644))
	_, err = Read(dir)
	require.ErrorContains(t, err, dataFile)
}

func TestColumns(t *testing.T) {
	d := &Data{}
	for _, k := range []string{"rxe 6.12", "rxe 6.1"} {
		for _, l := range []string{"xdp", "udp", "packet"} {
			d.Rows = append(d.Rows, matrix.Row{Kernel: k, Link: l, Role: "requester"})
		}
	}
	require.Equal(t, []string{"goroce udp", "goroce packet", "goroce xdp", "rxe 6.1", "rxe 6.12"}, d.Columns())
	require.Empty(t, (&Data{}).Columns())
}

func TestQuantile(t *testing.T) {
	v := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	require.Equal(t, []float64{1, 2, 6, 10, 11},
		[]float64{quantile(v, 0), quantile(v, 0.1), quantile(v, 0.5), quantile(v, 0.9), quantile(v, 1)})
	require.Equal(t, 7.0, quantile([]float64{7}, 0.9))
}
