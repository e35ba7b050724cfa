package simreport

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport/cc"
)

func run(t *testing.T, s *Scenario) *Result {
	t.Helper()
	s.SampleNs = 20 * Microsecond
	r, err := Run(s)
	require.NoError(t, err)
	return r
}

func paper(flows []Flow, ms, warmupMs int64) *Scenario {
	return &Scenario{
		Name: "test", Flows: flows, CC: cc.Config{Algorithm: cc.DCQCNPaper}, CNPNs: paperCNPNs, RED: PaperRED,
		DurationNs: ms * Millisecond, WarmupNs: warmupMs * Millisecond, Seed: 1,
	}
}

// Two senders fill the port, share it, and keep the queue short.
func TestIncastTwo(t *testing.T) {
	t.Parallel()
	seeds.Long(t)
	r := run(t, paper(Incast(2), 22, 14))
	require.Greater(t, r.Utilization, 0.95)
	require.Greater(t, r.Total, 0.9*LineRate.Gbit())
	require.Greater(t, r.Jain, 0.95)
	require.Less(t, r.Queue.Percentile(0.9), 120_000)
	require.Zero(t, r.Dropped+r.Resent+r.Timeouts)
	require.Equal(t, r.CNPs, r.Cuts, "each CNP arrives, and cuts once")
	require.Greater(t, r.Marked, r.CNPs)

	without := paper(Incast(2), 10, 5)
	without.CC, without.RED = cc.Config{}, sim.RED{}
	n := run(t, without)
	require.Greater(t, n.Queue.Percentile(0.5), 5*r.Queue.Percentile(0.9), "whole windows wait")
	require.Zero(t, n.CNPs+n.Cuts)
}

// The parameters of QCN with cut-off marking starve the slower flow; those of
// the paper bring both together.
func TestConvergenceDependsOnParameters(t *testing.T) {
	t.Parallel()
	seeds.Long(t)
	if testing.Short() {
		t.Skip("left out with -short: it simulates 300,000 packets, which takes seconds")
	}
	sets := fairnessSets()
	results := map[string]*Result{}
	for _, f := range []*fairness{sets[0], sets[3]} {
		s := f.scenario(1)
		s.Flows[1].Rate = 15 * cc.Gbps // the report begins further apart, and needs longer
		s.DurationNs, s.WarmupNs = 30*Millisecond, 22*Millisecond
		results[f.file] = run(t, s)
	}
	require.Less(t, results["strawman"].Jain, 0.6)
	require.Greater(t, results["paper"].Jain, 0.95)
	_, ok := results["strawman"].Convergence(0)
	require.False(t, ok)
	ns, ok := results["paper"].Convergence(0)
	require.True(t, ok)
	require.Less(t, ns, 25*Millisecond)
	for _, r := range results {
		require.Greater(t, r.Utilization, 0.95)
	}
}

// A flow alone comes back as the parameters say: 40 Mb/s more each 55 us.
func TestLoneFlowRecovers(t *testing.T) {
	t.Parallel()
	seeds.Long(t)
	r := run(t, paper([]Flow{{Rate: 20 * cc.Gbps}}, 30, 0))
	ns, ok := r.Recovery(0, 0, 0.95)
	require.True(t, ok)
	// 18 Gb/s in steps of 40 Mb/s, less what the byte counter adds: 10 MB take
	// 4 ms at 20 Gb/s and 2 ms at 40.
	timer := int64(18_000/40) * 55 * Microsecond
	require.Less(t, ns, timer)
	require.Greater(t, ns, timer*9/10)
	require.Zero(t, r.CNPs)
}

// Rates are obeyed: a flow that starts at a rate sends just that.
func TestStartRateIsObeyed(t *testing.T) {
	p := cc.Paper()
	p.IncreasePeriod, p.ByteCounter = 1e15, 1e15
	s := paper([]Flow{{Rate: 8 * cc.Gbps}}, 10, 2)
	s.CC.Profile = &p
	r := run(t, s)
	require.InEpsilon(t, 8.0/LineRate.Gbit(), r.Utilization, 0.005)
	require.LessOrEqual(t, r.Queue.PeakBytes, 1200, "packet by packet")
}

func TestRunIsDeterministic(t *testing.T) {
	t.Parallel()
	seeds.Long(t)
	one, two := run(t, paper(Incast(4), 5, 1)), run(t, paper(Incast(4), 5, 1))
	one.Scenario, two.Scenario = nil, nil
	require.Equal(t, one, two)
	s := paper(Incast(4), 5, 1)
	s.Seed = 2
	require.NotEqual(t, one.Marked, run(t, s).Marked)
}

// Without congestion control and with little buffer packets are lost, and flows share unevenly:
// some lose the tails of their windows and wait for timers.
func TestSmallBufferLoses(t *testing.T) {
	seeds.Long(t)
	s := paper(Incast(4), 5, 1)
	s.CC, s.CNPNs, s.Buffer = cc.Config{}, -1, 256<<10
	r := run(t, s)
	require.NotZero(t, r.Dropped)
	require.Less(t, r.Jain, 0.9)
}

// Across a Clos network far flows and a near one get the same.
func TestClos(t *testing.T) {
	t.Parallel()
	seeds.Long(t)
	s := paper(Incast(4), 24, 16)
	s.Paths = closPaths()
	r := run(t, s)
	require.Greater(t, r.Jain, 0.95)
	require.Greater(t, r.Utilization, 0.95)
	require.Zero(t, r.Dropped+r.Resent)
}

// The fixed point of the algorithm is what the simulated flows have marked where the switch
// can mark as much.
func TestFixedPoint(t *testing.T) {
	t.Parallel()
	seeds.Long(t)
	p := cc.Paper()
	require.InDelta(t, 0.016, FixedPoint(16, &p, wireBytes), 0.001)
	s := paper(Incast(8), 18, 10)
	s.RED.Pmax = 0.1
	require.InEpsilon(t, FixedPoint(8, &p, wireBytes), run(t, s).MarkedShare(), 0.3)
}

func TestJain(t *testing.T) {
	require.Equal(t, 1.0, Jain([]float64{3, 3, 3}))
	require.Equal(t, 0.25, Jain([]float64{1, 0, 0, 0}))
	require.Zero(t, Jain(nil))
}

// tiny is an outcome with one short result everywhere.
func tiny(t *testing.T) *Outcome {
	r := run(t, paper(Incast(2), 2, 1))
	two := []*Result{r, r}
	four := paper(Incast(4), 2, 1)
	four.Paths = closPaths()
	r4 := run(t, four)
	// As if the samples were further apart: the report looks at a second.
	long := &Result{Scenario: &Scenario{DurationNs: longNs, SampleNs: longNs / 100, Flows: r.Scenario.Flows}}
	for i, s := range r.Samples {
		s.AtNs = int64(i) * longNs / 100
		long.Samples = append(long.Samples, s)
	}
	o := &Outcome{Incast: map[string][]*Result{}, Pmax10: []*Result{r, r, r, r, r}, Shallow: two, Late: r,
		Lone: two, Fairness: fairnessSets(), Variants: variants(), Clos: []*Result{r4, r4, r4},
		Long: []*Result{long, long}}
	for _, x := range schemes {
		o.Incast[x.name] = []*Result{r, r, r, r, r}
	}
	for _, v := range o.Variants {
		v.result = r
	}
	for _, f := range o.Fairness {
		f.results = []*Result{r, r, r}
	}
	return o
}

var image = regexp.MustCompile(`\]\(([^)]+\.svg)\)`)

// The report names the charts that there are, in the committed one too.
func TestReport(t *testing.T) {
	o := tiny(t)
	dir := t.TempDir()
	for name, b := range o.Files() {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	for _, in := range []string{dir, filepath.Join("..", "..", "docs", "congestion")} {
		pages, err := filepath.Glob(filepath.Join(in, "*.md"))
		require.NoError(t, err)
		require.NotEmpty(t, pages)
		named := map[string]bool{}
		for _, page := range pages {
			md, err := os.ReadFile(page)
			require.NoError(t, err)
			require.NotContains(t, string(md), "%!")
			require.NotContains(t, string(md), "NaN")
			for _, m := range image.FindAllStringSubmatch(string(md), -1) {
				named[m[1]] = true
				checkXML(t, filepath.Join(in, m[1]))
			}
		}
		found, err := filepath.Glob(filepath.Join(in, "*.svg"))
		require.NoError(t, err)
		require.Len(t, found, len(named))
		require.GreaterOrEqual(t, len(named), len(o.Charts()))
	}
}

func checkXML(t *testing.T, name string) {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NotContains(t, string(b), "NaN")
	d := xml.NewDecoder(strings.NewReader(string(b)))
	for {
		if _, err := d.Token(); err != nil {
			require.True(t, errors.Is(err, io.EOF), "%s: %v", name, err)
			return
		}
	}
}
