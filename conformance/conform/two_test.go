package conform

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/agent"
	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/verbs"
)

// serveDevice serves a device of this process, and returns the agent's address.
func serveDevice(t *testing.T, dev *verbs.Device) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.New(agent.Config{Device: dev}).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, dev.Close())
	})
	return l.Addr().String()
}

// Two devices in namespaces of their own, each plugged into a third one, where this side is the
// cable: their packets are lost, doubled, damaged and captured there, and the checks find what is
// changed on the way.
func TestCable(t *testing.T) {
	middle := linktest.NewNamespace(t)
	var agents []peer.AgentServer
	for i, name := range []string{"left", "right"} {
		end := linktest.NewNamespace(t)
		middle.Run("ip", "link", "add", name, "mtu", "9000", "type", "veth", "peer", "name", "eth0", "mtu",
			"9000", "netns", end.Path())
		middle.Run("ip", "link", "set", name, "up")
		end.Run("ip", "link", "set", "eth0", "up")
		addrs := []netip.Addr{netip.AddrFrom4([4]byte{10, 88, 0, byte(1 + i)}),
			netip.MustParseAddr([]string{"fd88::1", "fd88::2"}[i])}
		end.Run("ip", "addr", "add", addrs[0].String()+"/24", "dev", "eth0")
		end.Run("ip", "addr", "add", addrs[1].String()+"/64", "dev", "eth0", "nodad")
		if linktest.Before(t, 6, 2) { // a packet socket cannot tell there how a run is split
			end.Run("ethtool", "-K", "eth0", "tx-udp-segmentation", "off")
		}
		var dev *verbs.Device
		end.Do(func() {
			var l link.Link
			l, err := udp.Open(addrs, udp.Options{})
			require.NoError(t, err)
			dev, err = verbs.Open(verbs.Config{Addrs: addrs, Link: l})
			require.NoError(t, err)
		})
		agents = append(agents, peer.AgentServer{Addr: serveDevice(t, dev), Client: "test"})
	}
	o := Options{
		Agents: agents, Cable: []string{"left", "right"}, Quick: true, PcapDir: t.TempDir(),
		// Rows that a slow machine cannot make look wrong: three processes' worth of work is done
		// in this one.
		Only: []string{"operations/mtu 1024 size 4096", "errors/success",
			"faults/rc SEND as requester mtu 1024 size 8001 ipv4, drop", "micro/CNP", "canaries",
			"capture", "drills/nak"},
		at: func(f func() error) (err error) {
			middle.Do(func() { err = f() })
			return err
		},
	}
	res, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, res.Cut)
	require.Empty(t, failures(res))
	passed := map[string]int{}
	for _, row := range res.Report.Rows() {
		require.Equal(t, cableLink, row.Link)
		switch {
		case row.Result == matrix.Pass:
			passed[row.Group]++
		case row.Group == drillsGroup:
			require.Equal(t, "drills are played by this side: with one agent only", row.Detail)
		default:
			require.Equal(t, "tshark", row.Op, row.Label()+": "+row.Detail)
		}
	}
	for _, g := range []string{"operations", "errors", "faults", "micro", "canaries", "capture"} {
		require.NotZero(t, passed[g], g)
	}
	require.FileExists(t, o.PcapDir+"/capture.pcap")
}

// Without a cable what needs one is left out, and says so.
func TestTwoAgentsWithoutCable(t *testing.T) {
	var agents []peer.AgentServer
	for i := range 2 {
		dev, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{loopback(i)}, UDP: udp.Options{DisableGSO: true}})
		require.NoError(t, err)
		agents = append(agents, peer.AgentServer{Addr: serveDevice(t, dev), Client: "test"})
	}
	res, err := Run(t.Context(),
		Options{Agents: agents, Quick: true, Only: []string{"operations/size 257 ipv4", "faults/corrupt", "canaries"}})
	require.NoError(t, err)
	require.Empty(t, failures(res))
	for _, row := range res.Report.Rows() {
		if row.Group == "operations" {
			require.Equal(t, matrix.Pass, row.Result, row.Label())
		} else {
			require.Equal(t, matrix.Skip, row.Result, row.Label())
			require.Equal(t, "the packets between the two do not come by here", row.Detail)
		}
	}

	for name, o := range map[string]Options{
		"one agent":                 {Agents: agents[:1], Cable: []string{"a", "b"}},
		"one end":                   {Agents: agents, Cable: []string{"a"}},
		"no such network interface": {Agents: agents, Cable: []string{"no-such-if", "lo"}},
		"itself":                    {Agents: agents, Cable: []string{"lo", "lo"}},
		"not an Ethernet interface": {Agents: agents, Cable: []string{"lo", "no-such-if"}},
	} {
		_, err := Run(t.Context(), o)
		require.Error(t, err, name)
	}
}

// lateTarget is a target whose packets come too late the first times.
type lateTarget struct {
	drill.Target
	runs, late int
}

type lateBench struct {
	drill.Bench
	late bool
}

func (t *lateTarget) Open(ctx context.Context) (drill.Bench, error) {
	t.runs++
	b, err := t.Target.Open(ctx)
	return &lateBench{b, t.runs <= t.late}, err
}

func (b *lateBench) Recv(within time.Duration) (drill.Datagram, bool, error) {
	if b.late {
		return drill.Datagram{}, false, nil
	}
	return b.Bench.Recv(within)
}

// A drill in which a packet came too late is played again, and the row says so; not for ever.
func TestLateDrill(t *testing.T) {
	env := &matrix.Env{Tolerant: &matrix.Tolerance{}}
	for late, want := range map[int]matrix.Result{0: matrix.Pass, 2: matrix.Pass, 100: matrix.Fail} {
		target := &lateTarget{Target: drill.NewEngine(), late: late}
		row := new(Options).oneDrill(t.Context(), env, target,
			matrix.Row{Group: drillsGroup, Op: "ack_send", Link: "udp"})
		require.Equal(t, want, row.Result, row.Detail)
		require.Equal(t, min(late, lateTries-1), row.Starved)
		require.Equal(t, late > 0, row.Retried != "")
	}
}
