package matrix

import (
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/report"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/conformance/switchlink"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
)

// What a loss that UC and UD allow looks like is no failure, and what cannot be one is.
func TestVerdictOfLosses(t *testing.T) {
	for name, c := range map[string]struct {
		lost           lostError
		asked, arrived int
		byRight        bool
		says           string
	}{
		"the way loses some": {lostError{came: -1, packets: 8}, 16, 15, true, "packets get lost on the way"},
		"it loses all":       {lostError{came: -1, packets: 8}, 16, 0, false, "no loss by chance"},
		"it loses none":      {lostError{came: -1, packets: 8}, 16, 16, false, "nothing else gets lost"},
		"a long message": {lostError{came: -1, packets: 4096}, 48, 48, true,
			"more than the receiver takes at once"},
		"a long message, all lost": {lostError{came: 7, packets: 4096}, 48, 0, false, "no loss by chance"},
		"all packets have come here": {lostError{came: 8, packets: 8}, 16, 15, false,
			"although all of its packets came here"},
		"all but one": {lostError{came: 7, packets: 8}, 16, 15, true, "packets get lost on the way"},
	} {
		t.Run(name, func(t *testing.T) {
			what, byRight := c.lost.verdict(3, c.asked, c.arrived)
			require.Equal(t, c.byRight, byRight)
			require.Contains(t, what, c.says)
			require.Contains(t, what, report.NumberOf(c.lost.packets, "packet")+" did not arrive, 3 times")
		})
	}
}

// behindLoss returns an environment of two devices of this process, of which the second is behind a
// wire that the checks do not see, and that wire.
func behindLoss(t *testing.T, n byte) (*Env, *ether.Switch) {
	pid := os.Getpid()
	sw, hidden := ether.New(), ether.New()
	device := func(at byte, port string, sw *ether.Switch) *peer.Goroce {
		p, err := peer.NewGoroce(peer.GorocePlace{
			Addr4: netip.AddrFrom4([4]byte{127, 20 + 2*n + at, byte(pid >> 8), byte(pid)}), PortName: port,
			WrapLink: func(l link.Link) link.Link {
				w, err := switchlink.New(l, sw)
				require.NoError(t, err)
				return w
			},
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	e := &Env{Wire: sw, Report: new(Report), Kernel: "peer", Link: "udp", RefPort: switchlink.Far, Seed: 1,
		wait: time.Second}
	e.Subject, e.Ref = device(0, switchlink.Near, sw), struct{ peer.Peer }{device(1, switchlink.Far, hidden)}
	return e, hidden
}

// Rows of UC whose packets get lost where nobody sees it.
func TestLosses(t *testing.T) {
	middle := func(p *ether.Packet) bool {
		return ib.Opcode(p.Opcode).Info().Transport == ib.UC && ib.Opcode(p.Opcode).Info().Pos == 0
	}
	opcode := func(op ib.Opcode) func(p *ether.Packet) bool {
		return func(p *ether.Packet) bool { return ib.Opcode(p.Opcode) == op }
	}
	unreliable := func(p *ether.Packet) bool { return ib.Opcode(p.Opcode).Info().Transport == ib.UC }
	some := func(n int64) func(p *ether.Packet) bool {
		var seen atomic.Int64
		return func(p *ether.Packet) bool { return unreliable(p) && seen.Add(1)%n == 0 }
	}
	behind := func(n int64, lose func(*ether.Packet) bool) func(*ether.Packet) bool {
		var seen atomic.Int64
		return func(p *ether.Packet) bool { return lose(p) && seen.Add(1) > n }
	}
	const group, uc = "operations", "uc "
	for i, c := range []struct {
		name, group, op string
		role            role
		size            int
		lose            func(*ether.Packet) bool
		times           int // 0: each
		result          Result
		says            string // in Retried or Detail
	}{
		{"one SEND", group, uc + "SEND", requester, 4096, middle, 1, Pass, "attempt 1 of 3: responder: no completion"},
		{"one SEND of the peer", group, uc + "SEND", responder, 4096, middle, 1, Pass,
			"attempt 1 of 3: responder: no completion"},
		{"one WRITE", group, uc + "WRITE", requester, 4096, middle, 1, Pass,
			"attempt 1 of 3: a part of the WRITE is not there"},
		{"one WRITE with immediate", group, uc + "WRITE_IMM", requester, 4096, middle, 1, Pass,
			"attempt 1 of 3: responder: no completion"},
		{"one of three", group, uc + "SEND", requester, 4096, some(3), 0, Inconclusive,
			"of 16 single packets that were sent at once"},
		{"one of three of the peer", group, uc + "SEND", responder, 4096, some(3), 0, Inconclusive,
			"which UC and UD allow"},
		{"those of long messages", group, uc + "SEND", requester, 65536, middle, 0, Inconclusive,
			"more than the receiver takes at once"},
		{"those in the middle", group, uc + "SEND", requester, 4096, middle, 0, Fail, "nothing else gets lost"},
		{"all", group, uc + "SEND", requester, 1, unreliable, 0, Fail, "no loss by chance"},
		{"one more than the fault", "faults", uc + "SEND", requester, faultSize, behind(6, middle), 1, Pass,
			"attempt 1 of 3: responder: no completion"},
		{"the one that the fault is for", "faults", uc + "SEND", responder, faultSize, opcode(ib.UCSendFirst),
			1, Pass, "attempt 1 of 3: the wire saw the packet 0 times in 1s"},
		{"what follows a WRITE", group, uc + "WRITE", responder, 255, opcode(ib.UCSendOnly), 4, Inconclusive,
			"a message of 2 packets did not arrive, 3 times, but of 16 single packets that were sent at once 15 arrived"},
		{"one of what is captured", "capture", uc + "SEND", requester, captureSize, middle, 1, Pass,
			"attempt 1 of 3: responder: no completion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, hidden := behindLoss(t, byte(i))
			e.Choose = func(row Row) bool {
				return row.Op == c.op && row.Role == string(c.role) && row.Family == "ipv4" &&
					row.Size == c.size && (row.MTU == 256 || row.MTU == faultMTU && c.group != group) &&
					(c.group != "faults" || row.Fault == "drop first request packet")
			}
			times := c.times
			if times == 0 {
				times = -1
			}
			from := switchlink.Far
			if c.role == responder {
				from = switchlink.Near
			}
			hidden.Add(&ether.Rule{
				Match: ether.Match{From: from, AnyPSN: true, Func: c.lose}, Kind: ether.Drop, Times: times,
			})
			require.NoError(t, e.Run(t.Context(), c.group))
			rows := e.Report.Rows()
			require.Len(t, rows, 1)
			require.Equal(t, c.result, rows[0].Result, rows[0].Detail)
			require.Contains(t, rows[0].Retried+rows[0].Detail, c.says)
			require.Empty(t, e.Report.TooBusy(), "no machine was slow")
		})
	}
}
