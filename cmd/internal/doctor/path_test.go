package doctor

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/cmd/internal/doctor/probe"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/cmd/internal/toolcheck"
	"github.com/stretchr/testify/require"
)

// finePath is a path of which there is nothing to say.
func finePath() *probe.Result {
	here, there := netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("10.0.0.2:4791")
	fine := probe.Mark{Tried: true, ECT: true, CE: true, DSCP: 26, Sent: 26}
	return &probe.Result{
		Local: here, Remote: there, Reachable: true, Unasked: true,
		Forward: probe.Way{ICRC: probe.Good, Src: here, SeenSrc: here, Dst: there, SeenDst: there, TTL: 64,
			Header: true, ECN: fine, MTU: 1024},
		Back: probe.Way{ICRC: probe.Good, Src: there, SeenSrc: there, Dst: here, SeenDst: here, TTL: 64,
			Header: true, ECN: fine, MTU: 1024},
		Burst:   probe.Burst{Sent: 2000, Forward: probe.Fate{Sent: 2000}, Back: probe.Fate{Sent: 2000}},
		RTT:     probe.RTT{Samples: 200, Min: 1e4, P50: 2e4, P99: 9e4},
		Goodput: probe.Goodput{Bits: 3e9, Packets: 1000, MTU: 1024},
	}
}

func fineAround() *around {
	return &around{asked: true, owners: []string{"02:00:00:00:00:02"}, routeMTU: 1500}
}

func TestFinePath(t *testing.T) {
	all := judgePath(finePath(), fineAround())
	said := map[string]bool{}
	for _, f := range all {
		require.Equal(t, OK, f.Level, "%+v", f)
		require.Contains(t, pathChecks, f.Check)
		said[f.Check] = true
	}
	require.Len(t, said, len(pathChecks))
}

func TestSickPath(t *testing.T) {
	bad := map[string]bool{"rtt": true, "goodput": true, "reach": true} // the first two only tell
	for _, c := range []struct {
		name  string
		spoil func(r *probe.Result)
		check string
		level Level
		found string
	}{
		{"silent", func(r *probe.Result) { *r = probe.Result{Remote: r.Remote, Silence: "nothing comes back"} },
			"reach", Fail, "nothing comes back"},
		{"unasked", func(r *probe.Result) { r.Unasked = false }, "unasked", Fail,
			"packets of the peer's own to UDP port 4791 do not"},
		{"unasked not tried", func(r *probe.Result) { r.Unasked, r.Untried = false, "it is in use" },
			"unasked", Unknown, "it is in use"},
		{"NAT", func(r *probe.Result) {
			r.Forward.SeenSrc, r.Forward.ICRC = netip.MustParseAddrPort("192.0.2.9:1024"), probe.Rewritten
		}, "nat", Fail, "10.0.0.1:50000 to 10.0.0.2:4791 arrives as 192.0.2.9:1024 to 10.0.0.2:4791"},
		{"NAT's ICRC", func(r *probe.Result) { r.Back.ICRC = probe.Rewritten }, "icrc", Fail,
			"right for those that were sent"},
		{"changed", func(r *probe.Result) { r.Back.ICRC = probe.Bad }, "icrc", Fail, "changes packets"},
		{"identification", func(r *probe.Result) { r.Forward.ID = 77 }, "icrc", Fail,
			"identification 0 arrives as 77, DF kept"},
		{"DF", func(r *probe.Result) { r.Back.NoDF = true }, "icrc", Fail, "DF cleared"},
		{"no header", func(r *probe.Result) { r.Back.Header = false }, "icrc", OK, "would need CAP_NET_RAW"},
		{"nothing seen", func(r *probe.Result) { r.Forward.ICRC = probe.Unseen }, "nat", Unknown, "no packet came"},
		{"some corrupt", func(r *probe.Result) { r.Burst.Forward.BadICRC = 3 }, "corrupt", Warn,
			"3 of 2000 with a right UDP checksum and a wrong ICRC"},
		{"damaged", func(r *probe.Result) { r.Burst.Back.Lost, r.Burst.Back.Damaged = 50, 50 }, "corrupt",
			Fail, "50 of 2000 packets came with a wrong UDP checksum"},
		{"damaged, not lost", func(r *probe.Result) { r.Burst.Back.Lost, r.Burst.Back.Damaged = 50, 50 },
			"loss", OK, "0 of 2000 packets lost"},
		{"buffer full", func(r *probe.Result) { r.Burst.Back.Lost, r.Burst.Back.Full = 5, 4 }, "loss", Warn,
			"4 of them in the receive buffer"},
		{"nothing but damage", func(r *probe.Result) { *r = probe.Result{Remote: r.Remote, Damaged: 6} },
			"reach", Fail, "6 answers came with a wrong UDP checksum"},
		{"all marked", func(r *probe.Result) { r.Burst.Forward.Marked = 2000 }, "ecn-path", Warn,
			"something marks whatever passes"},
		{"some marked", func(r *probe.Result) { r.Burst.Forward.Marked = 20 }, "ecn-path", Note,
			"20 of 2000 packets were marked"},
		{"narrow", func(r *probe.Result) { r.Forward.Narrower = true }, "path-mtu", Warn,
			"less than what the interface here carries, and no router says so"},
		{"narrow and told", func(r *probe.Result) { r.Forward.Narrower, r.Forward.Told = true, true },
			"path-mtu", Warn, "interface here carries"},
		{"narrow back", func(r *probe.Result) { r.Forward.MTU, r.Back.Narrower = 4096, true }, "path-mtu",
			Warn, "1024, which is less"},
		{"narrow, back not tried", func(r *probe.Result) { r.Forward.Narrower, r.Back.Narrower = true, true },
			"path-mtu", Unknown, "at least 1024"},
		{"no MTU", func(r *probe.Result) { r.Back.MTU = 0 }, "path-mtu", Fail, "no packet of any"},
		{"much loss", func(r *probe.Result) { r.Burst.Back.Lost = 100 }, "loss", Fail, "100 of 2000"},
		{"some loss", func(r *probe.Result) { r.Burst.Forward.Lost = 1 }, "loss", Warn, "1 of 2000"},
		{"not counted", func(r *probe.Result) { r.Burst.Forward = probe.Fate{} }, "loss", Unknown, "did not say"},
		{"much reordered", func(r *probe.Result) { r.Burst.Back.Reordered = 100 }, "order", Warn, "100 of 2000"},
		{"twice", func(r *probe.Result) { r.Burst.Back.Duplicate = 1 }, "order", Note, "1 came twice"},
		{"bleached", func(r *probe.Result) { r.Forward.ECN.ECT = false }, "ecn-path", Warn, "bleached"},
		{"CE cleared", func(r *probe.Result) { r.Back.ECN.CE = false }, "ecn-path", Warn, "mark CE is cleared"},
		{"congested", func(r *probe.Result) { r.Back.ECN.Congest = 1 }, "ecn-path", Note, "congested now"},
		{"ECN not seen", func(r *probe.Result) { r.Back.ECN = probe.Mark{} }, "ecn-path", Unknown,
			"no packet with ECN"},
		{"DSCP", func(r *probe.Result) { r.Back.ECN.DSCP = 0 }, "dscp", Note, "DSCP 26 arrives as 0"},
		{"no round trip", func(r *probe.Result) { r.RTT = probe.RTT{} }, "rtt", Unknown, "no round trip"},
		{"no goodput", func(r *probe.Result) { r.Goodput = probe.Goodput{} }, "goodput", Unknown, "not measured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := finePath()
			c.spoil(r)
			all := judgePath(r, fineAround())
			for _, f := range all {
				require.True(t, f.Level <= OK || len(f.Mend) > 0 || f.Level == Unknown || f.Level == Note ||
					f.Check == "path-mtu", "no command: %+v", f)
			}
			ok := slices.ContainsFunc(all, func(f Finding) bool {
				return f.Check == c.check && f.Level == c.level && strings.Contains(f.Found, c.found) &&
					(f.Level <= Unknown || f.Why != "")
			})
			require.True(t, ok, "%+v", all)
		})
		bad[c.check] = bad[c.check] || c.level > Unknown || c.level == Note
	}
	for _, name := range pathChecks {
		require.True(t, bad[name] || name == "peer", name)
	}
}

// What this machine itself does to the path.
func TestJudgeAround(t *testing.T) {
	find := func(r *probe.Result, by *around, check string) Finding {
		all := judgePath(r, by)
		i := slices.IndexFunc(all, func(f Finding) bool { return f.Check == check && f.Level > OK })
		require.GreaterOrEqual(t, i, 0, "%+v", all)
		return all[i]
	}
	by := fineAround()
	by.owners = append(by.owners, "02:00:00:00:00:03")
	f := find(finePath(), by, "peer")
	require.Equal(t, Fail, f.Level)
	require.Contains(t, f.Found, "2 machines answer for it: 02:00:00:00:00:02, 02:00:00:00:00:03")
	by = fineAround()
	by.routeMTU, by.route = 600, []string{"ip route change x"}
	f = find(finePath(), by, "path-mtu")
	require.Equal(t, Fail, f.Level)
	require.Contains(t, f.Found,
		"the network carries 1024, and the route of this machine has MTU 600, which carries path MTU 512")
	require.Equal(t, by.route, f.Mend)
	by = fineAround()
	by.firewall = []Finding{{Check: "firewall", Level: Fail, Found: "rule 3 drops it", Mend: []string{"nft x"}}}
	r := finePath()
	r.Unasked = false
	f = find(r, by, "unasked")
	require.Contains(t, f.Found, "rule 3 drops it")
	require.Equal(t, []string{"nft x"}, f.Mend)
	silent := &probe.Result{Remote: netip.MustParseAddrPort("[fd00::2]:4792"), Silence: "nothing comes back"}
	f = find(silent, by, "reach")
	require.Equal(t, "roce doctor --serve --addr fd00::2 --port 4792   # on fd00::2", f.Mend[0])
	require.Equal(t, []string{"nft x"}, find(silent, by, "firewall").Mend)
	by.shown = true
	require.Equal(t, []string{"reach", "peer"},
		[]string{judgePath(silent, by)[0].Check, judgePath(silent, by)[1].Check})
	require.Len(t, judgePath(silent, by), 2)
}

// Both sides as commands.
func TestServeAndProbe(t *testing.T) {
	there, here := toolcheck.Addr(t), toolcheck.Addr(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	listening, done := make(chan netip.AddrPort, 1), make(chan error)
	var serverOut, out toolcheck.Output
	go func() {
		env := &tool.Env{Stdout: &serverOut, Stderr: &serverOut, Listening: func(a netip.AddrPort) { listening <- a }}
		done <- Command().Run(ctx, env, []string{"--serve", "--addr", there.String()})
	}()
	var at netip.AddrPort
	select {
	case at = <-listening:
	case err := <-done:
		t.Fatal(err)
	}
	require.EqualValues(t, 4791, at.Port())
	patience = 20 * time.Second
	err := Command().Run(t.Context(), &tool.Env{Stdout: &out, Stderr: &out},
		[]string{"--path-only", "-D", "0.02", "--json", "--addr", here.String(), there.String()})
	patience = 0
	var exit *tool.Exit
	if err != nil { // loss, on a machine that is busy
		require.ErrorAs(t, err, &exit)
	}
	var r report
	require.NoError(t, json.Unmarshal([]byte(out.String()), &r), out.String())
	require.True(t, r.Path.Reachable)
	require.Equal(t, here, r.Path.Local.Addr())
	require.True(t, r.Path.Unasked)
	cancel(context.Canceled)
	require.ErrorIs(t, <-done, context.Canceled)
	require.Contains(t, serverOut.String(), "doctor: "+here.String()+" asks\n")
	require.Contains(t, serverOut.String(), "answered; 0 packets that are no question")

	// Now nobody is there.
	out = toolcheck.Output{}
	err = Command().Run(t.Context(), &tool.Env{Stdout: &out, Stderr: &out},
		[]string{"--path-only", "--addr", here.String(), there.String()})
	require.ErrorAs(t, err, &exit)
	require.Equal(t, exitFail, exit.Status)
	require.Contains(t, out.String(), "nobody has the port")
}
