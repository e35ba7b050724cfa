package transmit

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// The three ways to the ICRC of a packet agree, for FLUSH with that of rxe, too, which is another.
func TestICRC(t *testing.T) {
	flow := ib.Flow{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
		SrcPort: 0xC001, DstPort: ib.UDPPort}
	r := rand.New(rand.NewPCG(1, 1))
	for _, rxe := range []bool{false, true} {
		c := ICRC{ICRC: ib.NewICRC(flow), RxeFlush: rxe}
		v := link.NewVerifier(ib.UDPPort).Flow(&link.Source{Src: flow.Src, Dst: flow.Dst, SrcPort: flow.SrcPort})
		for _, op := range []ib.Opcode{ib.RCWriteMiddle, ib.RCFlush} {
			for _, n := range []int{0, 1, 5, 1024} {
				if op == ib.RCFlush && n > 0 {
					continue // has no payload
				}
				tx := edge.TxPacket{PayloadLen: uint16(n), Pad: uint8(-n & 3)}
				h := ib.Packet{BTH: ib.BTH{Opcode: op, Pad: tx.Pad, PSN: ib.PSN(r.Uint32()) & ib.PSNMask}}
				tx.HeaderLen = uint8(h.PutHeaders(tx.Header[:]))
				if n > 0 {
					tx.Frags[0], tx.NumFrags = make([]byte, n), 1
					for i := range tx.Frags[0] {
						tx.Frags[0][i] = byte(r.Uint32())
					}
				}
				b := c.Append(nil, &tx)
				require.Equal(t, ib.TrailingICRC(b), c.Of(&tx, 0))
				require.Equal(t, link.VerdictOK, v.CheckKnown(b, 0), "rxe %v, %v", rxe, op)
				want := append([]byte(nil), b...)
				ib.PutICRC(b[len(b)-ib.ICRCBytes:], c.Of(&tx, 77))
				require.Equal(t, link.VerdictOK, v.CheckKnown(b, 77))
				c.Renew(b)
				require.Equal(t, want, b)
				tx.ICRCXor = 0x11
				require.Equal(t, ib.TrailingICRC(want)^0x11, ib.TrailingICRC(c.Append(nil, &tx)))
				require.Equal(t, ib.TrailingICRC(want)^0x11, c.Of(&tx, 0))
			}
		}
	}
}
