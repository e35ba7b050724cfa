package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The aims find their cases, and the report has a row for each.
func TestVerbs(t *testing.T) {
	r := &Report{}
	require.NotContains(t, string(r.Markdown("")), "## Verbs libraries")
	for _, p := range VerbsPairs() {
		c := Case{Item: "verbs", Name: p.Name, Op: p.Tool}
		c.Add("libraries", p.Unit(), 5)
		c.Add("compared", p.Unit(), 4)
		c.Add(XOwn, "", 1.25)
		r.Cases = append(r.Cases, c)
	}
	poll := Case{Item: "verbs", Name: VerbsPoll}
	poll.Add("time", "ns", 12)
	ucx := Case{Item: "verbs", Name: "UCX tag_bw"}
	ucx.Add("libraries", "MB/s", 9)
	ucx.Add("compared", "MB/s", 3)
	ucx.Add("x TCP", "", 3)
	r.Cases = append(r.Cases, poll, ucx)
	verdicts := map[string]int{}
	for _, a := range Aims() {
		if v := a.Verdict(a.Value(r)); v != VerdictNone {
			verdicts[v]++
		}
	}
	// 1.25 of the bandwidth is enough, and of the latency too much.
	require.Equal(t, map[string]int{VerdictGoal: 6, VerdictMissed: 2}, verdicts)
	text := string(r.Markdown(""))
	require.Contains(t, text,
		"| ib_write_bw, 64 B, one post a call | 5.00 M/s | roce write_bw | 4.00 M/s | 1.25 [1.25–1.25] |")
	require.Contains(t, text, "| ib_send_lat, 64 B | 5.00 us | roce send_lat | 4.00 us | 1.25 [1.25–1.25] |")
	require.Contains(t, text, "| empty ibv_poll_cq | 12.0 [12.0–12.0] ns | | | |")
	require.Contains(t, text, "| UCX tag_bw | 9.00 MB/s | TCP | 3.00 MB/s | 3.00 [3.00–3.00] |")
}
