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
	for _, l := range []gopacket.LayerType{layers.LayerTypeDETH, layers.LayerTypeRETH, layers.LayerTypeAETH, layers.LayerTypeAtomicETH, layers.LayerTypeAtomicAckETH, layers.LayerTypeImmDt} {
		require.NotZero(t, seen[l], "%v", l)
	}
}

// A packet that is built decodes to itself, for every opcode.
func TestSerialize(t *testing.T) {
	layers.Register()
	flow := ib.Flow{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), SrcPort: 50000, DstPort: ib.UDPPort}
	for o := range 256 {
		op := ib.Opcode(o)
		b := &layers.BTH{Flow: &flow, Ident: 7}
		b.Packet = ib.Packet{BTH: ib.BTH{Opcode: op, PKey: ib.PKeyDefault, DestQP: 17, PSN: 99}, RETH: ib.RETH{VA: 1, RKey: 2, Len: 3},
			Atomic: ib.AtomicETH{VA: 4, SwapAdd: 5}, DETH: ib.DETH{QKey: 6, SrcQP: 7}, AETH: ib.AETH{Syndrome: 0x60, MSN: 8}, AtomicAck: 9, ImmDt: 10, IETH: 11}
		ip := &golayers.IPv4{Version: 4, TTL: 64, Id: 7, Flags: golayers.IPv4DontFragment, Protocol: golayers.IPProtocolUDP, SrcIP: net.IP{192, 0, 2, 1}, DstIP: net.IP{192, 0, 2, 2}}
		udp := &golayers.UDP{SrcPort: 50000, DstPort: ib.UDPPort}
		require.NoError(t, udp.SetNetworkLayerForChecksum(ip))
		buf := gopacket.NewSerializeBuffer()
		payload := []byte("hello")
		err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, udp, b, gopacket.Payload(payload))
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
