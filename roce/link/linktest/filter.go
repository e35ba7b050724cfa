package linktest

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// filterCase is a frame, whether the link sees it at all, and whether it hands it up.
type filterCase struct {
	name     string
	frame    Frame
	seen, up uint64
}

// RunFilter tests that a link that reads frames sees only UDP to the port and its addresses, and
// that it counts frames that are its own but wrong. What it sees is counted by RxDatagrams.
func RunFilter(t *testing.T, open Opener) {
	t.Parallel()
	n := NewNet(t, 4200)
	b := open.Open(t, n.B, n.B4)
	six := func(f func(b []byte)) Frame { return Frame{IP6: true, Dst: n.B6, Spoil: f} }
	for _, c := range []filterCase{
		{"plain", Frame{}, 1, 1},
		{"any identification", Frame{Ident: 0xBEEF}, 1, 1},
		{"no DF", Frame{Ident: 5, NoDF: true}, 1, 1},
		{"ICRC", Frame{Ident: 5, ICRCXor: 1 << 31}, 1, 0},
		{"identification not covered by the ICRC", Frame{Ident: 5, ICRCIdent: 4}, 1, 0},
		{"priority tag", Frame{VLAN: -1}, 1, 1},
		{"another VLAN", Frame{VLAN: 5}, 0, 0},
		{"another port", Frame{DstPort: 4790}, 0, 0},
		{"another address", Frame{Dst: netip.MustParseAddr("10.99.0.9")}, 0, 0},
		{"no address of the link", six(nil), 0, 0},
		{"loopback address from outside", Frame{Dst: netip.MustParseAddr("127.0.0.1")}, 0, 0},
		{"another machine's MAC", Frame{MAC: "02:00:00:00:00:77"}, 0, 0},
		{"broadcast MAC", Frame{MAC: "ff:ff:ff:ff:ff:ff"}, 1, 1},
		{"multicast not joined", Frame{Dst: netip.MustParseAddr("224.0.0.1"), MAC: "01:00:5e:00:00:01"}, 0, 0},
		{"IP options", Frame{Options: []capture.IPv4Option{{Type: 1}}}, 0, 0},
		{"first fragment", Frame{More: true}, 0, 0},
		{"later fragment", Frame{Fragment: true}, 0, 0},
		{"TCP", Frame{Spoil: func(b []byte) { b[23] = 6 }}, 0, 0},
		{"source 127.0.0.1", Frame{Src: netip.MustParseAddr("127.0.0.1")}, 0, 0},
		{"ARP", Frame{Spoil: func(b []byte) { b[13] = 6 }}, 0, 0},
		{"UDP length", Frame{Spoil: func(b []byte) { b[39]++ }}, 1, 0},
		{"IP length beyond the frame", Frame{Spoil: func(b []byte) { b[16] = 0x20 }}, 1, 0},
		{"multicast source", Frame{Spoil: func(b []byte) { b[26] = 224 }}, 1, 0},
		{"bit error", Frame{Payload: 8, Spoil: func(b []byte) { b[60] ^= 4 }}, 1, 0},
		{"UDP checksum wrong", Frame{Spoil: func(b []byte) { b[40] ^= 4 }}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, n, b, false) })
	}
}

// RunFilterIPv6 is RunFilter for IPv6.
func RunFilterIPv6(t *testing.T, open Opener) {
	t.Parallel()
	n := NewNet(t, 4200)
	b := open.Open(t, n.B, n.B6)
	for _, c := range []filterCase{
		{"plain", Frame{}, 1, 1},
		{"priority tag", Frame{VLAN: -1}, 1, 1},
		{"another VLAN", Frame{VLAN: 5}, 0, 0},
		{"another port", Frame{DstPort: 4790}, 0, 0},
		{"another address", Frame{Dst: netip.MustParseAddr("fd99::1:2")}, 0, 0},
		{"source ::1", Frame{Src: netip.IPv6Loopback()}, 0, 0},
		{"source ::1:1", Frame{Src: netip.MustParseAddr("::1:1")}, 1, 1},
		{"extension header", Frame{Spoil: func(b []byte) { b[20] = 60 }}, 0, 0},
		{"version 4", Frame{Spoil: func(b []byte) { b[14] = 0x45 }}, 0, 0},
		{"length beyond the frame", Frame{Spoil: func(b []byte) { b[18] = 2 }}, 1, 0},
		{"bit error", Frame{Payload: 8, Spoil: func(b []byte) { b[75] ^= 4 }}, 1, 0},
	} {
		c.frame.IP6 = true
		t.Run(c.name, func(t *testing.T) { c.run(t, n, b, true) })
	}
}

// run sends the frame, and after it a good one of another length, to the link's
// address, which ends the test.
func (c *filterCase) run(t *testing.T, n *Net, b link.Link, ip6 bool) {
	const endBytes = 64
	since := countersOf(b)
	SendFrames(t, n.A, MakeFrame(t, n, c.frame), MakeFrame(t, n, Frame{IP6: ip6, Ident: 77, Payload: endBytes}))
	got := Receive(t, b, int(c.up)+1)
	require.Len(t, got[len(got)-1].Data, ib.BTHBytes+endBytes+ib.ICRCBytes)
	s := since()
	require.Equal(t, c.seen+1, s.RxDatagrams, "seen")
	require.Equal(t, c.up+1, s.RxPackets, "handed up")
	require.Equal(t, c.seen-c.up, s.RxICRC+s.RxMalformed)
}
