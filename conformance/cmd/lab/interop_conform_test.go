package main

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/agent"
	"github.com/goroce/goroce/conformance/conform"
	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/conformance/switchlink"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/verbs"
)

// labels are the names of rows, whatever the peer is called.
func labels(rows []matrix.Row) (out []string) {
	for _, row := range rows {
		row.Kernel = "peer"
		out = append(out, row.Label())
	}
	return out
}

// The groups of devices that this program runs by itself, and those that "roce conform" runs, are
// of one registry: the command has all of them, with the same rows in the same order, on each link,
// quick or not.
func TestConformHasTheRows(t *testing.T) {
	for _, quick := range []bool{false, true} {
		for _, link := range peer.Links() {
			env := &matrix.Env{Kernel: "peer", Link: link, Full: !quick}
			n := 0
			for _, g := range deviceGroups(env) {
				if g.name == "links" { // a row of the lab's own, with either
					continue
				}
				want, err := env.List(g.name)
				require.NoError(t, err)
				got, err := conform.List(conform.Options{Only: []string{g.name}, Link: link, Quick: quick})
				require.NoError(t, err)
				require.Equal(t, labels(want), labels(got))
				n += len(got)
			}
			require.Greater(t, n, 2000)
		}
	}
	require.Subset(t, conform.Groups(),
		[]string{"operations", "errors", "faults", "canaries", "capture", "micro", "drills"})
}

func loopback(n int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(40 + n), byte(pid >> 8), byte(pid)})
}

// serve starts an agent with a device of this process.
func serve(t *testing.T, at netip.Addr) string {
	dev, err := verbs.Open(verbs.Config{Addrs: []netip.Addr{at}, UDP: udp.Options{DisableGSO: true}})
	require.NoError(t, err)
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

// Some rows of each group, run by this program and by "roce conform" against the same peer, have
// the same results.
func TestConformGivesTheResults(t *testing.T) {
	at := peer.AgentServer{Addr: serve(t, loopback(1)), Client: "test"}
	o := conform.Options{
		Agents: []peer.AgentServer{at}, Addrs: []netip.Addr{loopback(0)}, Quick: true,
		Only: []string{"operations/size 257 ipv4", "operations/size 1 ipv6", "errors/success", "errors/rkey",
			"faults/corrupt", "canaries"},
	}
	chosen, err := conform.List(o)
	require.NoError(t, err)
	names := labels(chosen)

	// As this program does it.
	ref, err := peer.NewAgent(t.Context(), peer.AgentPlace{Agent: at, PortName: switchlink.Far})
	require.NoError(t, err)
	sw := ether.New()
	defer sw.Close()
	dev, err := peer.NewGoroce(peer.GorocePlace{Addr4: loopback(0), PortName: switchlink.Near,
		WrapLink: func(l link.Link) link.Link {
			w, err := switchlink.New(l, sw)
			require.NoError(t, err)
			return w
		}})
	require.NoError(t, err)
	own := &runner{logf: t.Logf, report: new(matrix.Report), only: "operations,errors,faults,canaries"}
	env := &matrix.Env{Wire: sw, Report: own.report, Kernel: "6.12", Link: peer.DefaultLink, Subject: dev,
		Ref: ref, RefPort: switchlink.Far,
		Choose: func(row matrix.Row) bool { return slices.Contains(names, labels([]matrix.Row{row})[0]) }}
	require.NoError(t, own.groups(t.Context(), env, deviceGroups(env)))
	require.NoError(t, dev.Close())
	require.Zero(t, own.report.Count(matrix.Fail))
	require.NotZero(t, own.report.Count(matrix.Skip), "the peer has no IPv6 address")

	// As the command does it, by way of its file.
	res, err := conform.Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, res.Cut)
	dir := t.TempDir()
	require.NoError(t, conform.WriteFile(filepath.Join(dir, "conform.json"), io.Discard, res.Document().WriteJSON))
	rows, err := conformRows(filepath.Join(dir, "conform.json"), "6.12")
	require.NoError(t, err)
	require.ElementsMatch(t, labels(own.report.Rows()), labels(rows))
	by := &runner{report: new(matrix.Report)}
	for _, row := range rows {
		by.report.Add(row)
	}
	then := filepath.Join(dir, "interop.json")
	require.NoError(t, own.report.WriteJSON(then))
	require.NoError(t, by.compare(then))

	// A result that is another one is found, and so is a row that is missing.
	changed := &runner{report: new(matrix.Report)}
	for _, row := range rows[1:] {
		row.Result = matrix.Fail
		changed.report.Add(row)
	}
	differ, err := changed.against(then)
	require.NoError(t, err)
	require.Len(t, differ, len(rows))
	require.ErrorContains(t, changed.compare(then), "rows are not as in")
	_, err = (&runner{report: new(matrix.Report)}).against(then)
	require.ErrorContains(t, err, "no row of this run's groups")
}
