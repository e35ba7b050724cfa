package conform

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/drill"
	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/matrix"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
)

// acknowledgement is an ACK with the ICRC that it has with an IPv4 identification.
func acknowledgement(src, dst netip.Addr, id uint16) []byte {
	pk := ib.Packet{BTH: ib.BTH{Opcode: ib.RCAcknowledge, PKey: ib.PKeyDefault, DestQP: 0x200000, PSN: 7}}
	pk.AETH.Syndrome = ib.ACKNoCredits
	b := make([]byte, ib.MaxHeaderBytes)
	b = b[:pk.PutHeaders(b)]
	c := ib.NewICRC(ib.Flow{Src: src, Dst: dst, SrcPort: ib.UDPPort, DstPort: ib.UDPPort})
	sum := c.Checksum(id, b)
	b = append(b, 0, 0, 0, 0)
	ib.PutICRC(b[len(b)-ib.ICRCBytes:], sum)
	return b
}

// A socket does not show the IPv4 identification of what has come. In the capture of a drill a
// packet has the one that its ICRC fits, and is not called corrupt; one that is corrupt is.
func TestDrillsCapture(t *testing.T) {
	here, peer := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	sent, came, corrupt := acknowledgement(here, peer, 0), acknowledgement(peer, here, 0x7a31),
		acknowledgement(peer, here, 0x7a32)
	corrupt[12] ^= 0x40
	for name, c := range map[string]struct {
		packets []drill.Datagram
		corrupt int
	}{
		"an identification": {[]drill.Datagram{
			{Sent: true, Src: here, Dst: peer, SrcPort: ib.UDPPort, Payload: sent},
			{At: time.Millisecond, Src: peer, Dst: here, SrcPort: ib.UDPPort, Payload: came},
		}, 0},
		"damage": {[]drill.Datagram{{Src: peer, Dst: here, SrcPort: ib.UDPPort, Payload: corrupt, BadICRC: true}},
			1},
		"not a packet": {[]drill.Datagram{
			{Src: peer, Dst: here, SrcPort: ib.UDPPort, Payload: came[:5], BadICRC: true},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := &keeper{dir: t.TempDir(), sw: ether.New()}
			k.explain = func(_ io.Writer, _ string, capture io.Reader, _ []netip.Addr) error {
				r, _, err := analyse.Read(capture, analyse.Options{})
				require.NoError(t, err)
				found := 0
				for _, x := range r.Findings {
					if x.Kind == analyse.Corrupt {
						found++
					}
				}
				require.Equal(t, c.corrupt, found)
				return nil
			}
			row := k.keepDatagrams(matrix.Row{Group: drillsGroup, Op: "x"}, c.packets)
			b, err := os.ReadFile(row.Packets)
			require.NoError(t, err)
			require.True(t, bytes.Contains(b, c.packets[0].Payload))
		})
	}
}
