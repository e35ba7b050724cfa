package udp

import (
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/linktest"
)

// inject has the system calls of a link go through f.
func inject(l link.Link, f *linktest.Faults) {
	u := l.(*Link)
	u.tx.Sendmmsg, u.rx.reader.Recvmmsg = f.Send, f.Recv
	u.tx.GSO.Store(true)
	u.tx.MaxSegs = sockio.MaxSegments
}

func TestFaults(t *testing.T) {
	seeds.Slow(t)
	linktest.RunFaults(t, linktest.Pair{A: open(t, loopback(), Options{}), B: open(t, loopback(), Options{})}, inject)
}

func TestDead(t *testing.T) {
	seeds.Slow(t)
	b := open(t, loopback(), Options{})
	linktest.RunDead(t, func(t *testing.T) link.Link { return open(t, loopback(), Options{}) }, b, inject)
}
