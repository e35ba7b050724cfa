package trace

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

// The headers are what an independent decoder takes for right, checksums
// included, and the times come back to the nanosecond.
func TestWriter(t *testing.T) {
	for _, c := range []struct {
		src, dst string
		first    gopacket.LayerType
	}{
		{"10.0.0.1", "10.0.0.2", layers.LayerTypeIPv4},
		{"fd00::1", "fd00::2", layers.LayerTypeIPv6},
	} {
		for n := 16; n < 24; n++ { // every alignment of the block
			var file bytes.Buffer
			w, err := NewWriter(&file)
			require.NoError(t, err)
			body := bytes.Repeat([]byte{0xA5}, n)
			f := flowKey{netip.MustParseAddr(c.src), netip.MustParseAddr(c.dst), 0xC123}
			var head [ib.IPv6HeaderBytes + ib.UDPHeaderBytes]byte
			k := putHeaders(head[:], f, 0x6A, 63, 0x1234, body)
			const at int64 = 1_700_000_000_123_456_789
			require.NoError(t, w.Packet(at, true, head[:k], body))

			r, err := pcapgo.NewNgReader(&file, pcapgo.DefaultNgReaderOptions)
			require.NoError(t, err)
			data, info, err := r.ReadPacketData()
			require.NoError(t, err)
			require.EqualValues(t, at, info.Timestamp.UnixNano())
			p := gopacket.NewPacket(data, c.first, gopacket.Default)
			require.Nil(t, p.ErrorLayer())
			udp := p.TransportLayer().(*layers.UDP)
			require.EqualValues(t, 0xC123, udp.SrcPort)
			require.EqualValues(t, ib.UDPPort, udp.DstPort)
			require.Equal(t, body, udp.Payload)
			if ip, ok := p.NetworkLayer().(*layers.IPv4); ok {
				require.EqualValues(t, 0x6A, ip.TOS)
				require.EqualValues(t, 63, ip.TTL)
				require.EqualValues(t, 0x1234, ip.Id)
				require.Zero(t, headerChecksum(data[:ib.IPv4HeaderBytes]))
			} else {
				ip := p.NetworkLayer().(*layers.IPv6)
				require.EqualValues(t, 0x6A, ip.TrafficClass)
				require.EqualValues(t, 63, ip.HopLimit)
				sum := udp.Checksum
				require.NoError(t, udp.SetNetworkLayerForChecksum(ip))
				buf := gopacket.NewSerializeBuffer()
				require.NoError(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{ComputeChecksums: true}, udp, gopacket.Payload(udp.Payload)))
				require.Equal(t, sum, udp.Checksum)
			}
		}
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

func TestWriterError(t *testing.T) {
	_, err := NewWriter(&failingWriter{})
	require.Error(t, err)
	w, err := NewWriter(&failingWriter{1})
	require.NoError(t, err)
	require.Error(t, w.Packet(0, false, nil, make([]byte, 3)))
}
