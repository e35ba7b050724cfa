package packet_test

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
)

// receivers are the ways to receive, and the udp link to compare with.
func receivers() map[string]linktest.Opener {
	return map[string]linktest.Opener{
		"queue": openPacket(func(o *packet.Options) { o.DisableRing = true }),
		"ring":  openPacket(nil),
		"udp":   openUDP(udp.Options{}),
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, name := range []string{"udp", "queue", "ring"} {
		b.Run(name, func(b *testing.B) {
			_, x, y := receivers()[name].OpenPair(b, 4200)
			linktest.BenchmarkRoundTrip(b, x, y)
		})
	}
}

func BenchmarkBulk(b *testing.B) {
	for _, gso := range []bool{true, false} {
		for _, size := range []int{4096, 1024, 64} {
			for _, name := range []string{"queue", "ring"} {
				b.Run(fmt.Sprintf("gso=%v/%d/%s", gso, size, name), func(b *testing.B) {
					n := linktest.NewNet(b, 4200)
					x := openPacket(func(o *packet.Options) { o.DisableGSO = !gso }).Open(b, n.A, n.A4)
					y := receivers()[name].Open(b, n.B, n.B4)
					linktest.BenchmarkBulk(b, x, y, size)
				})
			}
		}
	}
}
