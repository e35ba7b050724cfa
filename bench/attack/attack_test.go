package attack

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if Child() {
		return
	}
	os.Exit(m.Run())
}

var known = Known{Server: serverAddr, Client: clientAddr, ServerQPN: 0x40011, ClientQPN: 0x80022,
	Addr: 1 << 20, RKey: 7, ReadPSN: 99}

// Every packet is one that an implementation would look at: it decodes, and its ICRC is that of the
// addresses and ports it goes between, but where that is the attack.
func TestForge(t *testing.T) {
	port := func(f from) uint16 { return 40_000 + uint16(f) }
	for _, a := range attacks() {
		next := a.make(newForger(known, 1, port))
		psns := map[ib.PSN]bool{}
		for n := range 200 {
			s, b := next(n)
			var p ib.Packet
			require.Equal(t, ib.DecodeOK, p.Decode(b), a.Name)
			dst, to := known.Server, known.ServerQPN
			if s == asServer {
				dst, to = known.Client, known.ClientQPN
			}
			c := ib.NewICRC(ib.Flow{Src: known.addrOf(s), Dst: dst, SrcPort: port(s), DstPort: ib.UDPPort})
			_, match := c.Verify(0, b)
			want := ib.MatchExact
			if strings.Contains(a.Name, "wrong ICRC") {
				want = ib.Mismatch
			}
			require.Equal(t, want, match, a.Name)
			psns[p.PSN] = true
			if p.DestQP != ib.QPNGSI {
				require.Equal(t, strings.Contains(a.Name, "not there"), p.DestQP != to, a.Name)
				continue
			}
			var h mad.Header
			_, bad := mad.Parse(p.Payload, &h)
			require.Equal(t, mad.OK, bad, a.Name)
		}
		if strings.Contains(a.Name, "any PSN") {
			require.Greater(t, len(psns), 190, a.Name)
		}
	}
}

// The strangers are at addresses of their own.
func TestAddresses(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for f := range asStranger + sources {
		seen[known.addrOf(f)] = true
	}
	require.Len(t, seen, int(asStranger)+sources)
}

// A row with all its processes, in a moment: it tells nothing of rates.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("short: processes that send to each other take a second")
	}
	r, err := Run(t.Context(), Options{Only: regexp.MustCompile("^WRITE, any PSN$"),
		Before: 50 * time.Millisecond, During: 200 * time.Millisecond})
	require.NoError(t, err)
	require.Len(t, r, 1)
	require.Positive(t, r[0].Rate)
	require.Empty(t, r[0].Ended)
}

func TestTable(t *testing.T) {
	rows := []Result{
		{Name: "WRITE", Knows: "number", Does: transfers, Asked: 20_000, Rate: 19_876, Before: 5, During: 4.5,
			CPUBefore: .5, CPUDuring: .75, WorstMs: 12.3},
		{Name: "NAK", Knows: "number", Does: transfers, Asked: 1000, Rate: 1010, Before: 5, During: 2, Ended: "retry"},
		{Name: "REQ", Knows: "nothing", Does: dials, Asked: 1000, Rate: 1000, Before: 47, During: 20,
			Failed: 2, Answered: 2.25},
		{Name: "READ", Knows: "sees packets", Does: idles, Asked: 1000, Rate: 1000, During: 9.25},
	}
	var b strings.Builder
	WriteTable(&b, rows, nil, "")
	require.Equal(t, `| sent | the attacker knows | packets/s | before | during | longest operation | CPU of the server | answered |
|---|---|---|---|---|---|---|---|
| WRITE | number | 20000 | 5.00 Gb/s | 4.50 Gb/s | 12 ms | 0.50 → 0.75 | 0.00 |
| NAK | number | 1000 | 5.00 Gb/s | **the connection ended** | 0 ms | 0.00 → 0.00 | 0.00 |
| REQ | nothing | 1000 | 47 dials/s | 20 dials/s, 2 failed | 0 ms | 0.00 → 0.00 | 2.25 |
| READ | sees packets | 1000 | sends 0.0 MB/s | sends 9.2 MB/s | 0 ms | 0.00 → 0.00 | 0.00 |
`, b.String())
	b.Reset()
	WriteTable(&b, rows[:1], []Result{
		{Name: "WRITE", Asked: 10_000}, {Name: "WRITE", Does: transfers, Asked: 20_000, Before: 6, During: 1},
	}, "abc")
	require.Contains(t, b.String(), "| at abc: before, during |\n")
	require.Contains(t, b.String(), "| 6.00 Gb/s, 1.00 Gb/s |\n")
}
