package suite

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/stretchr/testify/require"
)

// Nodes are this test binary started again.
func TestMain(m *testing.M) {
	if os.Getenv(node.Env) != "" {
		if err := node.Main(); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("SUITE_ENTER") != "" {
		enterAndMake()
	}
	os.Exit(m.Run())
}

// enterAndMake is the program inside of TestEnter: it says what network it has.
func enterAndMake() {
	Enter()
	n, err := newNetwork()
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(n.Kind)
	if n.Virtual() && !n.SetMTU(1500) {
		os.Stdout.WriteString(", whose MTU does not change")
	}
	if n.Close() != nil {
		os.Exit(1)
	}
	os.Exit(3)
}

// newSuite is between two namespaces: on loopback it might meet another program's device.
func newSuite(t *testing.T) *Suite {
	r := &report.Report{}
	s, err := New(Options{Links: []string{"udp", "packet", "xdp"}, Rounds: 2, RoundMs: 5,
		PingTime: 50 * time.Millisecond, LockTime: 20 * time.Millisecond, Logf: t.Logf}, r)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	if !s.net.Virtual() {
		t.Skipf("this process may not make network namespaces, and on loopback addresses other programs' devices may be met (has: %s)", s.net.Kind)
	}
	require.NoError(t, s.probe())
	require.Len(t, s.r.Links, len(s.o.Links))
	return s
}

// Pinned nodes have a CPU each, and the report says so; without Pin they have all that there are.
func TestPin(t *testing.T) {
	all, err := node.CPUs()
	require.NoError(t, err)
	for _, pin := range []bool{false, true} {
		r := &report.Report{}
		s, err := New(Options{Loopback: true, Pin: pin, Logf: t.Logf}, r)
		if pin && len(all) < 2 {
			require.ErrorContains(t, err, "one CPU")
			continue
		}
		require.NoError(t, err)
		var have [][]int
		for _, p := range []*node.Peer{s.a, s.b} {
			cpus, err := node.Call[struct{}, []int](p, "CPUs", struct{}{})
			require.NoError(t, err)
			have = append(have, cpus)
		}
		require.NoError(t, s.Close())
		if pin {
			require.Equal(t, [][]int{all[:1], all[1:2]}, have)
			require.Contains(t, r.Notes, fmt.Sprintf("each node is kept to one CPU: %d and %d", all[0], all[1]))
		} else {
			require.Equal(t, [][]int{all, all}, have)
		}
	}
}

// Every operation moves messages on every link, and all that it is compared with does.
func TestCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: it measures for four seconds")
	}
	s := newSuite(t)
	sizes := []int{5000, 64}
	if seeds.Race {
		sizes = sizes[:1]
	}
	for _, link := range s.o.Links {
		var ps []*point
		for _, size := range sizes {
			ps = append(ps, &point{link: link, size: size, region: node.RegionBytes, mtu: ib.MTU4096,
				ops: []string{"WRITE", "READ", "SEND", opAlone}})
		}
		require.NoError(t, s.points(setup{link: link, qps: 1, wrs: 512, mtu: ib.MTU4096}, ps...))
	}
	require.Len(t, s.r.Cases, len(s.o.Links)*4*len(sizes))
	for _, c := range s.r.Cases {
		for _, f := range []string{"goodput", "TCP", "ceiling", "x TCP", "x ceiling", "messages", "CPU",
			"packets/datagram"} {
			require.NotNil(t, c.Get(f), "%s: %s", c.Name, f)
			require.Len(t, c.Get(f).Rounds, 2)
			require.Positive(t, c.Get(f).Min, "%s: %s", c.Name, f)
		}
	}
}

func TestLatency(t *testing.T) {
	if testing.Short() || seeds.Race {
		t.Skip("left out with -short and under the race detector: it measures for seconds")
	}
	s := newSuite(t)
	s.o.Links, s.o.Rounds, s.o.Pings = []string{"udp"}, 1, 20
	require.NoError(t, s.latency())
	places := map[string]int{}
	for _, c := range s.r.Cases {
		for _, who := range []string{"", "TCP ", "link "} {
			require.Positive(t, c.Value(who+"p50"))
			require.GreaterOrEqual(t, c.Value(who+"p99"), c.Value(who+"p50"))
		}
		places[c.Place]++
	}
	want := map[string]int{report.AnyCPU: len(waitings), report.OneCPU: len(waitings)}
	if cpus, err := node.CPUs(); err == nil && len(cpus) > 1 {
		want[report.OwnCPU] = len(waitings)
	}
	require.Equal(t, want, places)
}

// Misuse of a node is an error, and leaves the node alive.
func TestNodeRefuses(t *testing.T) {
	s := newSuite(t)
	_, err := node.Call[node.BulkArgs, node.BulkReply](s.a, "Bulk",
		node.BulkArgs{Op: "WRITE", Size: 64, Region: 64, Batch: 1, Depth: 1})
	require.ErrorContains(t, err, "cannot run", "no queue pair")
	_, err = node.Call[node.RawArgs, node.BulkReply](s.a, "RawBulk", node.RawArgs{Size: 64, MTU: 64, Region: 64})
	require.ErrorContains(t, err, "cannot run", "no link")
	require.ErrorContains(t, node.Do(s.a, "Open", node.OpenArgs{LinkArgs: node.LinkArgs{Link: "pigeon"}}), "no link")
	for _, l := range []string{"udp", "packet", "xdp"} {
		require.Error(t,
			node.Do(s.a, "RawOpen", node.LinkArgs{Link: l, Addr: netip.MustParseAddr("192.0.2.77"), Port: 1}),
			"no address of this machine")
		require.NoError(t, node.Do(s.a, "Close", struct{}{}), "and the node lives")
	}
	require.NoError(t, node.Do(s.a, "Close", struct{}{}))
}

func TestParseBench(t *testing.T) {
	cs := parseBench([]byte(`goos: linux
BenchmarkPacket/SEND/64/send-2   	  10000	        65.5 ns/op	 977.10 MB/s	       0 B/op	       0 allocs/op
BenchmarkPacket/SEND/64/send-2   	  10000	        75.5 ns/op	 977.10 MB/s	       0 B/op	       2 allocs/op
BenchmarkWindow/16-2	 1	 7 ns/op
PASS`))
	require.Len(t, cs, 2)
	require.Equal(t, "Packet/SEND/64/send", cs[0].Name)
	require.Equal(t, 70.5, cs[0].Value("time"))
	require.Equal(t, 1.0, cs[0].Value("allocs"))
	require.Equal(t, "Window/16", cs[1].Name)
	require.Nil(t, cs[1].Get("allocs"))
}

// Ratios are of one round, and rounds are put together by name.
func TestRounds(t *testing.T) {
	var all []report.Case
	for _, ns := range [][2]string{{"100", "150"}, {"200", "400"}} {
		round := parseBench([]byte("BenchmarkPacket/SEND/64/send-2 1 " + ns[0] +
			" ns/op\nBenchmarkPacket/SEND/64/send+icrc-2 1 " + ns[1] + " ns/op\n" +
			"BenchmarkManyQPs/1-2 1 10 ns/op\nBenchmarkManyQPs/100-2 1 30 ns/op\nBenchmarkWindow/16-2 1 5 ns/op\nBenchmarkWindow/64 1 4 ns/op\n" +
			"BenchmarkEngines/WRITE/64/1-2 1 38 ns/op\nBenchmarkEngines/WRITE/64/2-2 1 20 ns/op\nBenchmarkEngines/SEND/64/2-2 1 20 ns/op\n"))
		addRatios(round)
		all = mergeRounds(all, round)
	}
	require.Len(t, all, 9)
	require.Equal(t, []float64{1.5, 2}, all[1].Get(report.XWithoutICRC).Rounds)
	require.Equal(t, 3.0, all[3].Value(report.XSmallest))
	require.Equal(t, 0.8, all[5].Value(report.XSmallest))
	require.Nil(t, all[0].Get(report.XWithoutICRC))
	require.Nil(t, all[6].Get(report.XOneEngine))
	require.Equal(t, 1.9, all[7].Value(report.XOneEngine))
	require.Nil(t, all[8].Get(report.XOneEngine), "there is no single one to compare with")
}

func TestJain(t *testing.T) {
	require.Equal(t, 1.0, jain([]int{3, 3, 3}))
	require.Equal(t, 0.25, jain([]int{8, 0, 0, 0}))
}
