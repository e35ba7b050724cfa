package suite

import (
	"fmt"
	"os"
	"testing"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
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
	os.Exit(m.Run())
}

// newSuite is between two namespaces: on loopback it might meet another program's
// device.
func newSuite(t *testing.T) *Suite {
	r := &report.Report{}
	s, err := New(Options{Links: []string{"udp", "packet"}, Rounds: 2, RoundMs: 5, Logf: t.Logf}, r)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	if !s.net.Virtual() {
		t.Skip("needs network namespaces: ", s.net.Kind)
	}
	return s
}

// Every operation moves messages on every link, and all that it is compared with does.
func TestCompare(t *testing.T) {
	s := newSuite(t)
	for _, link := range s.o.Links {
		require.NoError(t, s.with(setup{link: link, raw: true, qps: 1, wrs: 512, mtu: ib.MTU4096}, func() error {
			for _, size := range []int{64, 5000} {
				p := point{link: link, size: size, region: node.RegionBytes, mtu: ib.MTU4096, ops: []string{"WRITE", "READ", "SEND", opAlone}}
				if err := s.compare(&p); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	require.Len(t, s.r.Cases, 16)
	for _, c := range s.r.Cases {
		for _, f := range []string{"goodput", "TCP", "ceiling", "x TCP", "x ceiling", "messages", "CPU", "packets/datagram"} {
			require.NotNil(t, c.Get(f), "%s: %s", c.Name, f)
			require.Len(t, c.Get(f).Rounds, 2)
			require.Positive(t, c.Get(f).Min, "%s: %s", c.Name, f)
		}
	}
}

func TestLatency(t *testing.T) {
	s := newSuite(t)
	for _, polling := range []bool{false, true} {
		require.NoError(t, s.with(setup{link: "udp", polling: polling, raw: true, qps: 1, wrs: 512, mtu: ib.MTU1024}, func() error {
			return s.halfTrips("udp", "any", polling)
		}))
	}
	require.Len(t, s.r.Cases, 2)
	for _, c := range s.r.Cases {
		for _, who := range []string{"", "TCP ", "link "} {
			require.Positive(t, c.Value(who+"p50"))
			require.GreaterOrEqual(t, c.Value(who+"p99"), c.Value(who+"p50"))
		}
	}
}

// Misuse of a node is an error, and leaves the node alive.
func TestNodeRefuses(t *testing.T) {
	s := newSuite(t)
	_, err := node.Call[node.BulkArgs, node.BulkReply](s.a, "Bulk", node.BulkArgs{Op: "WRITE", Size: 64, Region: 64, Batch: 1, Depth: 1})
	require.ErrorContains(t, err, "cannot run", "no queue pair")
	_, err = node.Call[node.RawArgs, node.BulkReply](s.a, "RawBulk", node.RawArgs{Size: 64, MTU: 64, Region: 64})
	require.ErrorContains(t, err, "cannot run", "no link")
	require.ErrorContains(t, node.Do(s.a, "Open", node.OpenArgs{LinkArgs: node.LinkArgs{Link: "pigeon"}}), "no link")
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

func TestJain(t *testing.T) {
	require.Equal(t, 1.0, jain([]int{3, 3, 3}))
	require.Equal(t, 0.25, jain([]int{8, 0, 0, 0}))
}
