package conform

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/goroce/goroce/conformance/agent"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// loopback are addresses of this process: a test has one for each of its devices.
func loopback(n int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(32 + 64*n), byte(pid >> 8), byte(pid)})
}

// startAgent serves a device of this process, and returns the agent's address.
func startAgent(t *testing.T, token string) string {
	t.Helper()
	dev, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{loopback(1)}, UDP: udp.Options{DisableGSO: true}})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.New(agent.Config{Device: dev, Token: token}).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, dev.Close())
	})
	return l.Addr().String()
}

func options(addr string, only ...string) Options {
	return Options{Agents: []peer.AgentServer{{Addr: addr, Client: "test"}}, Addrs: []netip.Addr{loopback(0)},
		Only: only, Quick: true}
}

// failures are the rows that failed, in words.
func failures(r *Result) string {
	var b strings.Builder
	for _, row := range r.Report.Rows() {
		if row.Result == matrix.Fail {
			b.WriteString(row.Label() + ": " + row.Detail + "\n")
		}
	}
	return b.String()
}

// Where goroce and the peer share an address of the loopback, drills take one beside it.
func TestDrillsBesideSharedAddress(t *testing.T) {
	o := options(startAgent(t, ""), "drills/nak")
	o.Addrs = []netip.Addr{loopback(1)}
	res, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, failures(res))
	require.Positive(t, res.Report.Count(matrix.Pass))
}

func TestForDrills(t *testing.T) {
	a, b, lo, lo6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"),
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	require.True(t, forDrills(a, b))
	require.True(t, forDrills(a, netip.Addr{}))
	require.True(t, forDrills(lo, lo)) // there are others
	require.False(t, forDrills(a, a))
	require.False(t, forDrills(lo6, lo6))
	require.False(t, forDrills(netip.Addr{}, b))
}

// Against this module itself rows of each group pass, or are skipped for a good reason. All rows
// are in TestSelf of the command.
func TestSelf(t *testing.T) {
	only := []string{"operations/SEND", "errors/success", "errors/rkey", "errors/psn_retry",
		"errors/ghost_ack", "errors/bad_response", "faults/ drop middle", "faults/corrupt", "faults/reorder",
		"canaries", "capture", "drills/nak", "micro"}
	o := options(startAgent(t, ""), only...)
	o.PcapDir = t.TempDir()
	res, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, res.Cut)
	require.Empty(t, failures(res))
	for _, row := range res.Report.Rows() {
		require.NotEmpty(t, row.Authority, row.Label())
		if row.Result == matrix.Skip && row.Op != "tshark" && row.Group != drillsGroup {
			require.Equal(t, "goroce has no ipv6 address", row.Detail, row.Label())
		}
	}
	require.Greater(t, res.Report.Count(matrix.Pass), 100)
	require.FileExists(t, o.PcapDir+"/capture.pcap")

	// The rows are those that --list shows, in that order.
	listed, err := List(o)
	require.NoError(t, err)
	var want, got []string
	for _, row := range listed {
		row.Kernel = res.Peer
		want = append(want, row.Label())
	}
	for _, row := range res.Report.Rows() {
		if row.Op != "tshark" && row.Op != "roce explain" { // which are about the others
			got = append(got, row.Label())
		}
	}
	require.Equal(t, want, got)
}

// meddler is between Run and an agent, line by line.
type meddler struct {
	agent string
	// answer is given each request and its answer, and returns what the client is told; "" hangs
	// up.
	answer func(request, answer string) string
	// silent, if not nil, is given each request; of one for which it is true nobody ever hears
	// again.
	silent func(request string) bool
}

func (m meddler) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { m.session(nc) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func (m meddler) session(nc net.Conn) {
	defer nc.Close()
	up, err := net.Dial("tcp", m.agent)
	if err != nil {
		return
	}
	defer up.Close()
	in, from := bufio.NewReader(nc), bufio.NewReader(up)
	for {
		request, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if m.silent != nil && m.silent(request) {
			_, _ = in.ReadString('\n') // until the client gives up
			return
		}
		if _, err := up.Write([]byte(request)); err != nil {
			return
		}
		answer, err := from.ReadString('\n')
		if err != nil {
			return
		}
		if m.answer != nil {
			if answer = m.answer(request, answer); answer == "" {
				return
			}
		}
		if _, err := nc.Write([]byte(answer)); err != nil {
			return
		}
	}
}
