package layers_test

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/gopacket"
	golayers "github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/layers"
	"github.com/stretchr/testify/require"
)

// All packets of the captures decode to the layers that their opcode says, with a right ICRC.
func TestCaptures(t *testing.T) {
	layers.Register()
	files, err := filepath.Glob("../../ib/testdata/captures/*.pcap")
	require.NoError(t, err)
	seen := map[gopacket.LayerType]int{}
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		r, err := pcapgo.NewReader(bytes.NewReader(b))
		require.NoError(t, err)
		for {
			data, _, err := r.ReadPacketData()
			if err != nil {
				break
			}
			p := gopacket.NewPacket(data, golayers.LayerTypeEthernet, gopacket.Default)
			require.Nil(t, p.ErrorLayer())
			bth, ok := p.Layer(layers.LayerTypeBTH).(*layers.BTH)
			require.True(t, ok)
			for _, l := range p.Layers() {
				seen[l.LayerType()]++
			}
			icrc := p.Layer(layers.LayerTypeICRC).(*layers.ICRC)
			require.True(t, icrc.Known && icrc.Right, "%v", p)
			require.Equal(t, bth.Opcode.Has(ib.HasRETH), p.Layer(layers.LayerTypeRETH) != nil)
			require.Equal(t, bth.Opcode.Has(ib.HasAETH), p.Layer(layers.LayerTypeAETH) != nil)
			if a := p.ApplicationLayer(); a != nil {
				require.Equal(t, bth.Packet.Payload, a.Payload())
			} else {
				require.Empty(t, bth.Packet.Payload)
			}
		}
	}
	for _, l := range []gopacket.LayerType{layers.LayerTypeDETH, layers.LayerTypeRETH, layers.LayerTypeAETH,
		layers.LayerTypeAtomicETH, layers.LayerTypeAtomicAckETH, layers.LayerTypeImmDt} {
		require.NotZero(t, seen[l], "%v", l)
	}
}

// A packet that is built decodes to itself, for every opcode.
func TestSerialize(t *testing.T) {
	layers.Register()
	flow := ib.Flow{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"),
		SrcPort: 50000, DstPort: ib.UDPPort}
	for o := range 256 {
		op := ib.Opcode(o)
		b := &layers.BTH{Flow: &flow, Ident: 7}
		b.Packet = ib.Packet{BTH: ib.BTH{Opcode: op, PKey: ib.PKeyDefault, DestQP: 17, PSN: 99},
			RETH: ib.RETH{VA: 1, RKey: 2, Len: 3}, Atomic: ib.AtomicETH{VA: 4, SwapAdd: 5}, DETH: ib.DETH{
				QKey: 6, SrcQP: 7,
			}, AETH: ib.AETH{Syndrome: 0x60, MSN: 8}, AtomicAck: 9, ImmDt: 10, IETH: 11}
		ip := &golayers.IPv4{Version: 4, TTL: 64, Id: 7, Flags: golayers.IPv4DontFragment,
			Protocol: golayers.IPProtocolUDP, SrcIP: net.IP{192, 0, 2, 1}, DstIP: net.IP{192, 0, 2, 2}}
		udp := &golayers.UDP{SrcPort: 50000, DstPort: ib.UDPPort}
		require.NoError(t, udp.SetNetworkLayerForChecksum(ip))
		buf := gopacket.NewSerializeBuffer()
		payload := []byte("hello")
		err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip,
			udp, b, gopacket.Payload(payload))
		if !op.Known() {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		p := gopacket.NewPacket(buf.Bytes(), golayers.LayerTypeIPv4, gopacket.Default)
		require.Nil(t, p.ErrorLayer(), "%v", op)
		got := p.Layer(layers.LayerTypeBTH).(*layers.BTH)
		require.Equal(t, b.BTH, got.BTH)
		require.Equal(t, payload, p.ApplicationLayer().Payload())
		require.True(t, p.Layer(layers.LayerTypeICRC).(*layers.ICRC).Right, "%v", op)

		// As a decoding layer it has all headers.
		var again layers.BTH
		require.NoError(t, again.DecodeFromBytes(buf.Bytes()[28:], gopacket.NilDecodeFeedback))
		require.Equal(t, payload, again.LayerPayload())
		if op.Has(ib.HasRETH) {
			require.Equal(t, b.RETH, again.RETH)
		}
	}
}

// The layers of a packet are BTH, its extended headers in the order of the wire, and ICRC: each
// with its bytes, and with what they say.
func TestLayers(t *testing.T) {
	b := &layers.BTH{}
	b.Packet = ib.Packet{
		BTH: ib.BTH{PKey: ib.PKeyDefault, DestQP: 17, PSN: 99}, DETH: ib.DETH{QKey: 6, SrcQP: 7}, FETH: ib.FlushMR,
		RETH: ib.RETH{VA: 1, RKey: 2, Len: 3}, Atomic: ib.AtomicETH{VA: 4, RKey: 12, SwapAdd: 5, Compare: 13},
		AETH: ib.AETH{Syndrome: 0x60, MSN: 8}, AtomicAck: 9, ImmDt: 10, IETH: 11,
	}
	for o := range 256 {
		b.Opcode = ib.Opcode(o)
		if !b.Opcode.Known() {
			continue
		}
		for size := range 5 {
			payload := []byte("hello")[:size]
			buf := gopacket.NewSerializeBuffer()
			require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, b,
				gopacket.Payload(payload)))
			data := buf.Bytes()
			require.Equal(t, -size&3, int(data[1]>>4&3), "the padding of %d bytes", size)
			require.Len(t, data, int(b.Opcode.Info().HeaderLen)+(size+3)&^3+4)
			rest := data
			next := func(n int) golayers.BaseLayer {
				l := golayers.BaseLayer{Contents: rest[:n], Payload: rest[n:]}
				rest = rest[n:]
				return l
			}
			var want []gopacket.Layer
			first := next(12)
			for _, h := range []struct {
				is    ib.Headers
				bytes int
				layer func(golayers.BaseLayer) gopacket.Layer
			}{
				{ib.HasDETH, 8,
					func(l golayers.BaseLayer) gopacket.Layer { return &layers.DETH{BaseLayer: l, DETH: b.DETH} }},
				{ib.HasFETH, 4,
					func(l golayers.BaseLayer) gopacket.Layer { return &layers.FETH{BaseLayer: l, FETH: b.FETH} }},
				{ib.HasRETH, 16,
					func(l golayers.BaseLayer) gopacket.Layer { return &layers.RETH{BaseLayer: l, RETH: b.RETH} }},
				{ib.HasAtomicETH, 28, func(l golayers.BaseLayer) gopacket.Layer {
					return &layers.AtomicETH{BaseLayer: l, AtomicETH: b.Atomic}
				}},
				{ib.HasAETH, 4,
					func(l golayers.BaseLayer) gopacket.Layer { return &layers.AETH{BaseLayer: l, AETH: b.AETH} }},
				{ib.HasAtomicAckETH, 8, func(l golayers.BaseLayer) gopacket.Layer {
					return &layers.AtomicAckETH{BaseLayer: l, Original: 9}
				}},
				{ib.HasImmDt, 4,
					func(l golayers.BaseLayer) gopacket.Layer { return &layers.ImmDt{BaseLayer: l, Immediate: 10} }},
				{ib.HasIETH, 4,
					func(l golayers.BaseLayer) gopacket.Layer { return &layers.IETH{BaseLayer: l, RKey: 11} }},
			} {
				if b.Opcode.Has(h.is) {
					want = append(want, h.layer(next(h.bytes)))
				}
			}
			end := len(data) - 4
			want = append(want, &layers.ICRC{
				BaseLayer: golayers.BaseLayer{Contents: data[end:], Payload: data[end-(size+3)&^3:][:size]},
			})

			p := gopacket.NewPacket(data, layers.LayerTypeBTH, gopacket.Default)
			require.Nil(t, p.ErrorLayer(), "%v", b.Opcode)
			got := p.Layers()
			require.Equal(t, first, got[0].(*layers.BTH).BaseLayer, "%v", b.Opcode)
			if size != 0 {
				require.Equal(t, payload, got[len(got)-1].LayerContents())
				got = got[:len(got)-1]
			}
			require.Equal(t, want, got[1:], "%v", b.Opcode)
		}
	}
}

// A packet with less than BTH and ICRC is one that is cut; one with something else that is wrong is
// not. As a decoding layer, BTH has all headers in its bytes.
func TestTruncated(t *testing.T) {
	data := []byte{byte(ib.RCSendOnlyImm), 0, 0xFF, 0xFF, 0, 0, 0, 17, 0, 0, 0, 1, 0, 0, 0, 10, 1, 2, 3, 4, 5, 6, 7, 8}
	for n := 1; n < len(data); n++ {
		p := gopacket.NewPacket(data[:n], layers.LayerTypeBTH, gopacket.Default)
		require.Equal(t, n < 20, p.ErrorLayer() != nil, "%d bytes", n)
		require.Equal(t, n < 16, p.Metadata().Truncated, "%d bytes", n)
	}
	var b layers.BTH
	require.NoError(t, b.DecodeFromBytes(data, gopacket.NilDecodeFeedback))
	require.Equal(t, data[:16], b.LayerContents())
	require.Equal(t, []byte{1, 2, 3, 4}, b.LayerPayload())
	require.Equal(t, []any{layers.LayerTypeBTH, gopacket.LayerTypePayload}, []any{b.CanDecode(), b.NextLayerType()})
}

// What an ICRC should be is known of UDP over IP, if the datagram is whole. That of a packet that
// may be fragmented, with the bit DF of IPv4 off, is another one.
func TestICRC(t *testing.T) {
	layers.Register()
	frame := func(ip gopacket.SerializableLayer, src, dst string, more int) gopacket.Packet {
		flow := ib.Flow{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), SrcPort: 50000,
			DstPort: ib.UDPPort}
		b := &layers.BTH{Flow: &flow, Ident: 7,
			Packet: ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PKey: ib.PKeyDefault, DestQP: 17}}}
		udp := &golayers.UDP{SrcPort: 50000, DstPort: ib.UDPPort}
		buf := gopacket.NewSerializeBuffer()
		require.NoError(t, gopacket.SerializeLayers(buf,
			gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, b, gopacket.Payload("data")))
		udp.Length = uint16(8 + len(buf.Bytes()) + more)
		whole := gopacket.NewSerializeBuffer()
		require.NoError(t,
			gopacket.SerializeLayers(whole, gopacket.SerializeOptions{}, ip, udp, gopacket.Payload(buf.Bytes())))
		first := gopacket.Decoder(golayers.LayerTypeIPv4)
		if flow.Src.Is6() {
			first = golayers.LayerTypeIPv6
		}
		return gopacket.NewPacket(whole.Bytes(), first, gopacket.Default)
	}
	v4 := func(flags golayers.IPv4Flag, id uint16) *golayers.IPv4 {
		return &golayers.IPv4{
			Version: 4, IHL: 5, TTL: 64, Id: id, Flags: flags, Length: 20 + 8 + 20, Protocol: golayers.IPProtocolUDP,
			SrcIP: net.IP{192, 0, 2, 1}, DstIP: net.IP{192, 0, 2, 2},
		}
	}
	v6 := &golayers.IPv6{Version: 6, HopLimit: 64, Length: 8 + 20, NextHeader: golayers.IPProtocolUDP,
		SrcIP: net.ParseIP("2001:db8::1"), DstIP: net.ParseIP("2001:db8::2")}
	for name, c := range map[string]struct {
		p            gopacket.Packet
		known, right bool
	}{
		"IPv4":              {frame(v4(golayers.IPv4DontFragment, 7), "192.0.2.1", "192.0.2.2", 0), true, true},
		"another packet":    {frame(v4(golayers.IPv4DontFragment, 8), "192.0.2.1", "192.0.2.2", 0), true, false},
		"without DF":        {frame(v4(0, 7), "192.0.2.1", "192.0.2.2", 0), true, false},
		"IPv6":              {frame(v6, "2001:db8::1", "2001:db8::2", 0), true, true},
		"from another host": {frame(v6, "2001:db8::3", "2001:db8::2", 0), true, false},
		"to another host":   {frame(v6, "2001:db8::1", "2001:db8::3", 0), true, false},
		"cut":               {frame(v6, "2001:db8::1", "2001:db8::2", 4), false, false},
	} {
		c0 := c.p.Layer(layers.LayerTypeICRC)
		require.NotNil(t, c0, "%s: %v", name, c.p)
		icrc := c0.(*layers.ICRC)
		require.Equal(t, []bool{c.known, c.right}, []bool{icrc.Known, icrc.Right}, name)
	}
}

// An ICRC needs the addresses that it covers.
func TestSerializeErrors(t *testing.T) {
	b := &layers.BTH{Packet: ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly}}}
	buf := gopacket.NewSerializeBuffer()
	require.Error(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{ComputeChecksums: true}, b))
	b.Opcode = 0xFF
	require.Error(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{}, b))
}

// Any bytes decode without a panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x04, 0, 0xFF, 0xFF, 0, 0, 0, 17, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := gopacket.NewPacket(b, layers.LayerTypeBTH, gopacket.DecodeOptions{SkipDecodeRecovery: true})
		if p.ErrorLayer() == nil && len(b) > 0 && p.Layer(layers.LayerTypeBTH) == nil {
			t.Errorf("neither a packet nor an error")
		}
	})
}
