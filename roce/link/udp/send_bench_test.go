package udp

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/transport/edge"
)

// BenchmarkSend measures what the link does for a packet before the system call, the ICRC of its
// payload included, which is in the cache. One op is a packet.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{64, 1024, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			a, to := open(b, loopback(), Options{}), open(b, loopback(), Options{})
			a.tx.Sendmmsg = func(_ int, msgs []sockio.Mmsghdr) (int, unix.Errno) { return len(msgs), 0 }
			r := rand.New(rand.NewPCG(1, 2))
			path := linktest.NewPath(a, to)
			batch := make([]edge.TxPacket, 60)
			for i := range batch {
				batch[i] = linktest.Packet(r, path, size)
				batch[i].Header[0] = byte(ib.RCWriteMiddle)
				binary.BigEndian.PutUint32(batch[i].Header[8:], uint32(i))
				batch[i].HeaderLen = ib.BTHBytes
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += len(batch) {
				a.Send(batch)
			}
		})
	}
}
