package pcap_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
	"github.com/stretchr/testify/require"
)

// The messages of ICMPv6 have types and codes of their own.
func TestICMPv6(t *testing.T) {
	src, dst, from := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00::9")
	header := func(next byte, src, dst netip.Addr, n int) []byte {
		h := make([]byte, 40)
		h[0], h[6], h[7] = 0x60, next, 64
		binary.BigEndian.PutUint16(h[4:], uint16(n))
		a, b := src.As16(), dst.As16()
		copy(h[8:], a[:])
		copy(h[24:], b[:])
		return h
	}
	udp := binary.BigEndian.AppendUint16(nil, 50000)
	udp = binary.BigEndian.AppendUint16(udp, ib.UDPPort)
	udp = append(binary.BigEndian.AppendUint16(udp, 8+12+1024+4), 0, 0)
	bth := make([]byte, 12)
	bth[0] = byte(ib.RCWriteMiddle)
	quote := append(append(header(17, src, dst, len(udp)+12+1024+4), udp...), bth...)
	for _, c := range []struct {
		typ, code byte
		what      any
		mtu       int
	}{
		{1, 4, pcap.PortUnreachable, 0}, {1, 1, pcap.Prohibited, 0}, {2, 0, pcap.TooBig, 1280},
		{3, 0, nil, 0}, {128, 0, nil, 0}, {129, 4, nil, 0},
	} {
		msg := append([]byte{c.typ, c.code, 0, 0, 0, 0, 5, 0}, quote...)
		msg = append(header(58, from, src, len(msg)), msg...)
		all := (&pcap.Decoder{}).Decode(&pcap.Frame{Link: pcap.LinkRaw, Data: msg, WireBytes: len(msg)})
		if c.what == nil {
			for _, p := range all {
				require.Nil(t, p.ICMP, "type %d", c.typ)
			}
			continue
		}
		require.Len(t, all, 1, "type %d", c.typ)
		m := all[0].ICMP
		require.NotNil(t, m)
		require.Equal(t, c.what, m.What)
		require.Equal(t, c.mtu, m.MTU)
		require.Equal(t, from, m.From)
		require.Equal(t, dst, all[0].Flow.Dst)
		require.Equal(t, ib.RCWriteMiddle, all[0].Opcode)
	}
}
