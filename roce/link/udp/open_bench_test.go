package udp

import (
	"net/netip"
	"testing"
)

// BenchmarkOpen opens and closes a link on an address that nobody has.
func BenchmarkOpen(b *testing.B) {
	a := loopback()
	for b.Loop() {
		l, err := Open([]netip.Addr{a}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
