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

// A message of IPv4 says what is wrong by its type and code, of the packet that it quotes: of RoCE
// v2, over UDP, as much of it as there is.
func TestICMPv4(t *testing.T) {
	quote := func(options, more int) []byte {
		ip := make([]byte, 20+options)
		ip[0], ip[9] = byte(0x45+options/4), 17
		copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
		udp := binary.BigEndian.AppendUint16(nil, 50000)
		udp = binary.BigEndian.AppendUint16(udp, ib.UDPPort)
		udp = append(binary.BigEndian.AppendUint16(udp, 8+12+8+4), 0, 0)
		bth := []byte{byte(ib.RCWriteMiddle), 0, 0xFF, 0xFF, 0xC0, 1, 2, 3, 0x80, 4, 5, 6, 1, 2, 3, 4, 5, 6,
			7, 8, 9, 9, 9, 9, 77}
		return append(append(ip, udp...), bth[:more]...)
	}
	decode := func(d *pcap.Decoder, typ, code byte, quoted []byte) []pcap.Packet {
		msg := append([]byte{typ, code, 0, 0, 0, 0, 5, 0}, quoted...)
		ip := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 1, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1}
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(msg)))
		msg = append(ip, msg...)
		return d.Decode(
			&pcap.Frame{Link: pcap.LinkRaw, Number: 3, AtNs: 4, Dir: pcap.In, Data: msg, WireBytes: len(msg)})
	}
	for _, c := range []struct {
		typ, code byte
		what      pcap.ICMPKind
		mtu       int
	}{
		{3, 0, pcap.Unreachable, 0}, {3, 1, pcap.Unreachable, 0}, {3, 3, pcap.PortUnreachable, 0}, {3, 4,
			pcap.TooBig, 1280},
		{3, 9, pcap.Prohibited, 0}, {3, 10, pcap.Prohibited, 0}, {3, 13, pcap.Prohibited, 0},
	} {
		for _, options := range []int{0, 8, 40} {
			all := decode(&pcap.Decoder{}, c.typ, c.code, quote(options, 20))
			require.Len(t, all, 1)
			p := all[0]
			require.Equal(t, &pcap.ICMP{From: netip.MustParseAddr("10.0.0.9"), What: c.what, MTU: c.mtu,
				Type: c.typ, Code: c.code, HasBTH: true}, p.ICMP)
			require.Equal(t, ib.Flow{Src: netip.MustParseAddr("10.0.0.1"),
				Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 50000, DstPort: ib.UDPPort}, p.Flow)
			require.Equal(t, []any{3, int64(4), pcap.In, ib.RCWriteMiddle, ib.QPN(0x010203), ib.PSN(0x040506), 24},
				[]any{p.Frame, p.AtNs, p.Dir, p.Opcode, p.DestQP, p.PSN, p.Bytes})
		}
	}
	for more := range 26 { // what is quoted is cut, or longer than it says
		p := decode(&pcap.Decoder{}, 3, 1, quote(0, more))[0]
		require.Equal(t, more >= 12, p.ICMP.HasBTH, "%d bytes", more)
		require.Len(t, p.Data, min(more, 24))
	}
	with := func(at int, v byte) []byte {
		q := quote(0, 12)
		q[at] = v
		return q
	}
	for what, q := range map[string][]byte{
		"IPv6": with(0, 0x65), "a header of 16 bytes": with(0, 0x44),
		"a header beyond the end": with(0, 0x4A), "TCP": with(9, 6), "another port": with(23, 1),
		"too short": quote(0, 0)[:27],
	} {
		d := &pcap.Decoder{}
		require.Empty(t, decode(d, 3, 1, q), what)
		require.Equal(t, 1, d.Counts[pcap.NotUDP])
	}
	for _, typ := range []byte{0, 1, 2, 5, 8, 11} {
		require.Empty(t, decode(&pcap.Decoder{}, typ, 4, quote(0, 12)))
	}
	require.Empty(t, decode(&pcap.Decoder{Port: 4792}, 3, 1, quote(0, 12)))
	require.Len(t, decode(&pcap.Decoder{Port: 4792}, 3, 1, with(23, 0xB8)), 1)
	require.Len(t, decode(&pcap.Decoder{}, 3, 1, quote(0, 0)), 1, "the headers alone")
	short := []byte{0x45, 0, 0, 27, 0, 0, 0x40, 0, 64, 1, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1, 3, 4, 0, 0, 0, 0, 5}
	require.Empty(t, (&pcap.Decoder{}).Decode(&pcap.Frame{Link: pcap.LinkRaw, Data: short, WireBytes: len(short)}))
}

// Each frame that has no packet of RoCE v2 is counted as what it is.
func TestReasons(t *testing.T) {
	good := ipPacket(t)
	with := func(b []byte, at int, v ...byte) []byte {
		b = append([]byte(nil), b...)
		copy(b[at:], v)
		return b
	}
	udp6 := append([]byte{0x6A, 0xB1, 0x23, 0x45, 0, 28, 17, 9}, make([]byte, 32)...)
	udp6[23], udp6[39] = 1, 2
	udp6 = append(append(udp6, 0xC3, 0x50, 0x12, 0xB7, 0, 28, 0, 0),
		[]byte{byte(ib.RCAcknowledge), 0, 0xFF, 0xFF, 0, 0, 0, 17, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}...)
	tagged := func(n int) []byte {
		b := make([]byte, 12)
		for range n {
			b = append(b, 0x81, 0, 0, 1)
		}
		return append(append(b, 8, 0), good...)
	}
	tunnel := func(port uint16, head []byte, inner []byte) []byte {
		b := append([]byte{
			0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 3, 232, 0, 0, 0, 0, 0, 0,
		}, head...)
		b = append(b, inner...)
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[22:], port)
		binary.BigEndian.PutUint16(b[24:], uint16(len(b)-20))
		return b
	}
	vxlan := func(inner []byte) []byte {
		return tunnel(4789, []byte{8, 0, 0, 0, 0, 0, 9, 0}, append(append(make([]byte, 12), 8, 0), inner...))
	}
	deep := good
	for range 4 {
		deep = vxlan(deep)
	}
	for _, c := range []struct {
		name string
		link pcap.LinkType
		data []byte
		want pcap.Reason
	}{
		{"good", pcap.LinkRaw, good, pcap.Found},
		{"nothing", pcap.LinkRaw, nil, pcap.TooShort},
		{"cut in the header", pcap.LinkRaw, good[:19], pcap.TooShort},
		{"the header alone", pcap.LinkRaw, good[:20], pcap.TooShort},
		{"cut in the options", pcap.LinkRaw, with(good[:27], 0, 0x47), pcap.TooShort},
		{"a header of 16 bytes", pcap.LinkRaw, with(good, 0, 0x44), pcap.Malformed},
		{"shorter than its header", pcap.LinkRaw, with(good, 2, 0, 19), pcap.Malformed},
		{"no UDP header within", pcap.LinkRaw, with(good, 2, 0, 27), pcap.TooShort},
		{"no length: a large segment", pcap.LinkRaw, with(good, 2, 0, 0), pcap.Found},
		{"no length in a tunnel", pcap.LinkRaw, vxlan(with(good, 2, 0, 0)), pcap.Malformed},
		{"version 5", pcap.LinkRaw, with(good, 0, 0x55), pcap.Malformed},
		{"a first fragment", pcap.LinkRaw, with(good, 6, 0x20, 0), pcap.Fragment},
		{"a last fragment", pcap.LinkRaw, with(good, 6, 0, 1), pcap.Fragment},
		{"a fragment of TCP", pcap.LinkRaw, with(with(good, 6, 0x20, 0), 9, 6), pcap.NotUDP},
		{"TCP", pcap.LinkRaw, with(good, 9, 6), pcap.NotUDP},
		{"another port", pcap.LinkRaw, with(good, 22, 0, 53), pcap.OtherPort},
		{"a UDP length of 7", pcap.LinkRaw, with(good, 24, 0, 7), pcap.Malformed},
		{"a UDP length beyond IP's", pcap.LinkRaw, with(good, 24, 0xFF, 0xFF), pcap.Malformed},
		{"no UDP length", pcap.LinkRaw, with(good, 24, 0, 0), pcap.Found},
		{"IPv6", pcap.LinkIPv6, udp6, pcap.Found},
		{"IPv6, cut", pcap.LinkIPv6, udp6[:39], pcap.TooShort},
		{"IPv6, no UDP", pcap.LinkIPv6, udp6[:40], pcap.TooShort},
		{"IPv6, no length", pcap.LinkIPv6, with(udp6, 4, 0, 0), pcap.Found},
		{"IPv6, another protocol", pcap.LinkIPv6, with(udp6, 6, 44), pcap.NotUDP},
		{"ARP", pcap.LinkEthernet, append(append(make([]byte, 12), 8, 6), good...), pcap.NotIP},
		{"RoCE v1", pcap.LinkEthernet, append(append(make([]byte, 12), 0x89, 0x15), good...), pcap.RoCEv1},
		{"half a frame", pcap.LinkEthernet, make([]byte, 13), pcap.TooShort},
		{"four tags", pcap.LinkEthernet, tagged(4), pcap.Found},
		{"five tags", pcap.LinkEthernet, tagged(5), pcap.Malformed},
		{"a tag that is cut", pcap.LinkEthernet, tagged(1)[:17], pcap.TooShort},
		{"an old tag", pcap.LinkEthernet, with(tagged(1), 12, 0x91, 0), pcap.Found},
		{"null, cut", pcap.LinkNull, good[:3], pcap.TooShort},
		{"null of OpenBSD", 108, append(make([]byte, 4), good...), pcap.Found},
		{"raw of BSD", 12, good, pcap.Found},
		{"SLL, cut", pcap.LinkSLL, good[:15], pcap.TooShort},
		{"SLL2, cut", pcap.LinkSLL2, good[:19], pcap.TooShort},
		{"four tunnels", pcap.LinkRaw, deep, pcap.Found},
		{"five tunnels", pcap.LinkRaw, vxlan(deep), pcap.OtherPort},
		{"VXLAN without its flag", pcap.LinkRaw, tunnel(4789, make([]byte, 8), good), pcap.OtherPort},
		{"VXLAN, cut", pcap.LinkRaw, tunnel(4789, nil, make([]byte, 7)), pcap.OtherPort},
		{"Geneve of IP, with options", pcap.LinkRaw,
			tunnel(6081, []byte{2, 0, 8, 0, 0, 0, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8}, good), pcap.Found},
		{"Geneve, cut in its options", pcap.LinkRaw,
			tunnel(6081, []byte{2, 0, 8, 0, 0, 0, 9, 0, 1, 2, 3}, nil), pcap.TooShort},
		{"Geneve, another version", pcap.LinkRaw, tunnel(6081, []byte{0x40, 0, 8, 0, 0, 0, 9, 0}, good),
			pcap.OtherPort},
		{"Geneve, cut", pcap.LinkRaw, tunnel(6081, nil, make([]byte, 7)), pcap.OtherPort},
		{"another link", 250, good, pcap.UnknownLink},
	} {
		d := &pcap.Decoder{}
		all := d.Decode(&pcap.Frame{Link: c.link, Data: c.data, WireBytes: len(c.data)})
		for r := range d.Counts {
			n := 0
			if pcap.Reason(r) == c.want {
				n = 1
			}
			require.Equal(t, n, d.Counts[r], "%s: %v", c.name, pcap.Reason(r))
		}
		require.Equal(t, c.want == pcap.Found, len(all) == 1, c.name)
		require.NotEmpty(t, c.want.String())
	}
	p := (&pcap.Decoder{}).Decode(&pcap.Frame{Link: pcap.LinkIPv6, Data: udp6, WireBytes: len(udp6)})[0]
	require.Equal(t, []any{uint8(0xAB), uint32(0x12345), uint8(9), "::1", "::2", 20},
		[]any{p.TrafficClass, p.FlowLabel, p.HopLimit, p.Flow.Src.String(), p.Flow.Dst.String(), p.Bytes})
	for typ, dir := range []pcap.Direction{pcap.In, pcap.In, pcap.In, pcap.Unknown, pcap.Out, pcap.Unknown} {
		f := link(pcap.LinkSLL, good)
		f[1] = byte(typ)
		require.Equal(t, dir,
			(&pcap.Decoder{}).Decode(&pcap.Frame{Link: pcap.LinkSLL, Data: f, WireBytes: len(f)})[0].Dir)
	}
}
