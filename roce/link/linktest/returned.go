package linktest

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// RunReturned tests that a link hears, by ICMP, that no socket has the port at a peer's address,
// and what it had sent there. six says that it does of IPv6, too: a kernel without the port is
// silent about a UDP checksum of 0, which links that write frames send.
func RunReturned(t *testing.T, open Opener, six bool) {
	t.Parallel()
	n := NewNet(t, 1500)
	rnd := rand.New(rand.NewPCG(3, 3))
	all := [][2]netip.Addr{{n.A4, n.B4}}
	if six {
		all = append(all, [2]netip.Addr{n.A6, n.B6})
	}
	for _, addrs := range all {
		a := open.In(t, n.A, addrs[0])
		defer a.Close()
		if s, ok := link.As[link.Slotted](a); ok {
			var err error
			n.A.Do(func() { err = s.ServeRequests() })
			require.NoError(t, err)
		}
		tx := Packet(rnd,
			&edge.Path{Src: addrs[0], Dst: addrs[1], SrcPort: 0xC001, HopLimit: 64, Management: true}, 100)
		copy(tx.Header[5:8], []byte{0, 0, byte(ib.QPNGSI)})
		Drive(t, a, func() bool {
			a.Send([]edge.TxPacket{tx}) // until the neighbour is known
			Drain(t, a)
			back := a.Returned()
			if back.Quote == nil {
				return false
			}
			require.Equal(t, addrs[1], back.From)
			require.False(t, back.NoHost)
			require.Equal(t, tx.Headers(), back.Quote[:tx.HeaderLen])
			return true
		})
	}
}
