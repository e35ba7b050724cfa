//go:build linux

package xdp_test

import (
	"testing"

	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/udp"
)

func BenchmarkRoundTrip(b *testing.B) {
	for _, c := range []struct {
		name string
		open linktest.Opener
	}{
		{"udp", openUDP(udp.Options{})},
		{"packet", openPacket},
		{"native", openXDP()},
		{"generic", openXDP(generic)},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, x, y := c.open.OpenPair(b, 4200)
			linktest.BenchmarkRoundTrip(b, x, y)
		})
	}
}
