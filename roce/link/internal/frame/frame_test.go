package frame

import (
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/capture"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/stretchr/testify/require"
)

var flows = []Flow{
	{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("198.51.100.255"), SrcPort: 0xC001,
		DstPort: 4791, TrafficClass: 26<<2 | 2, HopLimit: 9},
	{Src: netip.MustParseAddr("255.254.253.252"), Dst: netip.MustParseAddr("251.250.249.248"),
		SrcPort: 0xFFFF, DstPort: 4791, TrafficClass: 0xFF, VLAN: 4094},
	{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8:ffff::2"), SrcPort: 0xC001,
		DstPort: 4791, TrafficClass: 0xA5, HopLimit: 1, FlowLabel: 0xFFFABCDE},
	{Src: netip.MustParseAddr("fe80::1"), Dst: netip.MustParseAddr("fe80::2"), SrcPort: 1, DstPort: 4791,
		TrafficClass: 26 << 2, VLAN: 1},
}

var macA, macB = [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 2}

func build(f *Flow, payload int) []byte {
	var h Header
	h.Init(f, macA, macB)
	b := make([]byte, h.Len()+payload)
	h.Put(b, payload)
	for i := range payload {
		b[h.Len()+i] = byte(i)
	}
	return b
}

// Headers are what an independent decoder reads, and what it would write.
func TestHeader(t *testing.T) {
	for _, f := range flows {
		for _, size := range []int{16, 64, 4096 + 60, 65000} {
			b := build(&f, size)
			p := capture.Parse(b)
			require.NoError(t, p.Err)
			require.Equal(t, net.HardwareAddr(macA[:]), p.SrcMAC)
			require.Equal(t, net.HardwareAddr(macB[:]), p.DstMAC)
			require.Equal(t, f.VLAN != 0, p.Tagged)
			if p.Tagged {
				require.Equal(t, f.VLAN, p.VLAN)
				require.Equal(t, f.TrafficClass>>5, p.Priority, "the class of the DSCP")
			}
			require.Equal(t, ib.Flow{Src: f.Src, Dst: f.Dst, SrcPort: f.SrcPort, DstPort: f.DstPort}, p.Flow)
			require.Equal(t, f.TrafficClass, p.TrafficClass)
			ttl := f.HopLimit
			if ttl == 0 {
				ttl = defaultTTL
			}
			require.Equal(t, ttl, p.HopLimit)
			require.Equal(t, size+Overhead(f.Dst), p.IPBytes)
			require.Equal(t, size+ib.UDPHeaderBytes, p.UDPBytes)
			require.Zero(t, p.UDPChecksum)
			if f.Dst.Is4() {
				require.Zero(t, p.Ident)
				require.True(t, p.DF && !p.More)
				require.NoError(t, p.CheckIPv4Header())
			} else {
				require.Equal(t, f.FlowLabel&0xFFFFF, p.FlowLabel)
			}
		}
	}
}

// What was built is read back; padding is left out, and no truncation passes.
func TestParse(t *testing.T) {
	for _, f := range flows {
		b := build(&f, 64)
		var d receive.Datagram
		require.True(t, Parse(&d, append(b[:len(b):len(b)], 1, 2, 3), f.DstPort))
		require.Equal(t, b[len(b)-64:], d.Data)
		require.Equal(t, f.Src, d.Source.Src)
		require.Equal(t, f.Dst, d.Source.Dst)
		require.Equal(t, f.SrcPort, d.Source.SrcPort)
		require.Equal(t, f.TrafficClass, d.TrafficClass)
		require.False(t, Parse(&d, b, f.DstPort+1))
		b = build(&f, 0)
		require.True(t, Parse(&d, b, f.DstPort), "a datagram may be empty")
		require.Empty(t, d.Data)
		for n := range b {
			require.False(t, Parse(&d, b[:n], f.DstPort), "%d of %d bytes", n, len(b))
		}
	}
}

// What is not UDP of the version that the frame says is left out, and the flag DF is told.
func TestParseHeaders(t *testing.T) {
	for _, f := range flows {
		var h Header
		h.Init(&f, macA, macB)
		var d receive.Datagram
		spoilt := func(at int, v byte) bool {
			b := build(&f, 64)
			b[h.Network()+at] = v
			return Parse(&d, b, f.DstPort)
		}
		if f.Dst.Is4() {
			require.True(t, spoilt(6, 0x40))
			require.False(t, d.Source.NoDF)
			require.True(t, spoilt(6, 0))
			require.True(t, d.Source.NoDF)
			require.False(t, spoilt(6, 0x20), "a fragment")
			require.False(t, spoilt(0, 0x46), "options")
			require.False(t, spoilt(9, 6), "TCP")
		} else {
			require.True(t, spoilt(0, 0x60))
			require.False(t, spoilt(0, 0x40), "not IPv6")
			require.False(t, spoilt(6, 44), "a fragment")
		}
	}
}

// The partial checksum is that of the pseudo header: with the rest of the datagram it makes the
// whole one.
func TestPartialChecksum(t *testing.T) {
	for _, f := range flows {
		var h Header
		h.Init(&f, macA, macB)
		b := build(&f, 64)
		h.PutPartialChecksum(b, 64)
		sum := ib.InternetSum(17+64+ib.UDPHeaderBytes, f.Src.AsSlice(), f.Dst.AsSlice())
		at := h.Transport() + ChecksumOffset
		require.Equal(t, sum, uint16(b[at])<<8|uint16(b[at+1]))
		require.Equal(t, h.Len()-ib.UDPHeaderBytes, h.Transport())
	}
}

// Any bytes parse without panic; what passes lies within the frame, and
// an independent decoder agrees.
func FuzzParse(f *testing.F) {
	for _, flow := range flows {
		f.Add(build(&flow, 20))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d receive.Datagram
		if !Parse(&d, b, 4791) {
			return
		}
		require.LessOrEqual(t, len(d.Data), len(b)-EthernetBytes-ip4Overhead)
		p := capture.Parse(b)
		require.True(t, p.RoCE())
		require.Equal(t, d.Source.SrcPort, p.Flow.SrcPort)
		require.Equal(t, len(d.Data), len(p.Payload))
	})
}

func TestHeaderNoAllocation(t *testing.T) {
	var h Header
	h.Init(&flows[0], macA, macB)
	b := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() { h.Put(b, 40) }))
}
