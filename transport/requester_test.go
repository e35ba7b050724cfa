package transport

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
)

// TestSizes moves messages of every shape in both directions, across the wrap
// of the PSN, at every MTU.
func TestSizes(t *testing.T) {
	for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
		m := mtu.Bytes()
		for _, n := range []int{0, 1, 3, m - 1, m, m + 1, 2 * m, 129*m + 1} {
			t.Run(fmt.Sprintf("mtu=%d/n=%d", m, n), func(t *testing.T) {
				l := newLoop(t, loopOptions{mtu: mtu, psn: 0xFFFFF0, data: 1 << 21})
				fill(l.a.data[:n], 1)
				remote := l.b.region.IOVA() + 1<<20
				require.NoError(t, l.b.qp.PostRecv(&RecvWR{ID: 9, SGList: []SGE{l.b.at(0, n)}}))
				for id, op := range []WROpcode{WRSend, WRWrite, WRRead} {
					wr := SendWR{
						ID: uint64(id), Opcode: op, Flags: SendSignaled, SGList: []SGE{l.a.at(0, n)},
						RemoteAddr: remote, RKey: l.b.region.RKey(),
					}
					if op == WRRead {
						wr.SGList = []SGE{l.a.at(1<<20, n)}
					}
					require.NoError(t, l.a.qp.PostSend(l.now, &wr))
				}
				l.run()
				wcs := completions(l.a.scq)
				require.Len(t, wcs, 3)
				for i, wc := range wcs {
					require.Equal(t, WC{
						ID: uint64(i), Opcode: []WCOpcode{WCSend, WCWrite, WCRead}[i],
						QPN: l.a.qp.Number(), ByteLen: uint32(n),
					}, wc)
				}
				require.Len(t, completions(l.b.rcq), 1)
				require.Equal(t, l.a.data[:n], l.b.data[:n], "SEND")
				require.Equal(t, l.a.data[:n], l.b.data[1<<20:][:n], "WRITE")
				require.Equal(t, l.a.data[:n], l.a.data[1<<20:][:n], "READ")
				require.Zero(t, l.a.e.Counters().RetransmittedPkts)
			})
		}
	}
}
