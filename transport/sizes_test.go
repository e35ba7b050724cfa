package transport_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport"
)

// Every operation, at the sizes where something changes, at every path MTU,
// with PSNs that wrap on the way.
func TestSizes(t *testing.T) {
	seeds.Long(t)
	for mtu := ib.MTU256; mtu <= ib.MTU4096; mtu++ {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("mtu=%v,v6=%v", mtu, v6), func(t *testing.T) {
				p := newPair(t, pairConfig{mtu: ib.MTU4096, v6: v6})
				p.logging = false
				a, b := p.connect(linkConfig{attr: func(l *link, at *transport.QPAttr) {
					at.PathMTU = mtu
					at.SQPSN = 0xfffff0
					at.RQPSN = 0xfffff0
				}})
				m := mtu.Bytes()
				sizes := []int{0, 1, m - 1, m, m + 1, 2 * m, 3*m + 2, 129*m + 1, 255, 256, 257, 1023, 1024,
					1025, 4096, 65536}
				if mtu == ib.MTU1024 {
					sizes = append(sizes, bufBytes/2)
				}
				for i, n := range sizes {
					if n > bufBytes/2 {
						continue
					}
					const to = bufBytes / 2
					same := func(x, y []byte, what string) {
						require.True(t, bytes.Equal(x, y), "%s of %d bytes", what, n)
						require.Equal(t, []int{1, 0}, []int{len(a.poll()), len(a.poll())}, "%s of %d bytes", what, n)
					}
					src := a.fill(0, n, uint64(i))
					a.post(a.write(0, to, n))
					p.run()
					same(src, b.buf[to:to+n], "WRITE")
					a.fill(0, n, uint64(100+i))
					b.recv(1, 0, n)
					a.post(a.send(0, n))
					p.run()
					same(src, b.buf[:n], "SEND")
					require.EqualValues(t, n, b.poll()[0].ByteLen)
					a.post(a.read(to, to, n))
					p.run()
					same(a.buf[to:to+n], b.buf[to:to+n], "READ")
				}
				c := a.eng.Counters()
				require.Zero(t, c.RetransmittedPkts+c.Timeouts)
			})
		}
	}
}
