package transport

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// BenchmarkWindow is a long WRITE of packets of 256 B with windows of several sizes: the time
// of a packet must not depend on how many are on their way. One op is a packet.
func BenchmarkWindow(b *testing.B) {
	const message = 1 << 20
	for _, window := range []int{16, 64, 256, 1024, 4096} {
		b.Run(fmt.Sprint(window), func(b *testing.B) {
			l := newLoop(b, loopOptions{mtu: ib.MTU256, psn: 1, tuning: Tuning{MaxUnackedPackets: window}})
			for _, s := range []*side{l.a, l.b} {
				require.NoError(b, s.qp.Modify(l.now, QPAttr{MaxUnackedPackets: window}, AttrWindow))
			}
			wr := SendWR{
				Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{l.a.at(0, message)},
				RemoteAddr: l.b.region.IOVA(), RKey: l.b.region.RKey(),
			}
			var wc [4]WC
			b.ReportAllocs()
			for n := 0; n < b.N; n += message / ib.MTU256.Bytes() {
				require.NoError(b, l.a.qp.PostSend(l.now, &wr))
				for l.a.scq.Poll(wc[:]) == 0 {
					l.carry(l.a, l.b)
					l.carry(l.b, l.a)
				}
			}
		})
	}
}
