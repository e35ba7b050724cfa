package packet_test

import (
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
)

func inject(l link.Link, f *linktest.Faults) { l.(*packet.Link).Inject(f) }

func queueOnly(o *packet.Options) { o.DisableRing = true }

func TestFaults(t *testing.T) {
	seeds.Slow(t)
	for name, change := range map[string]func(*packet.Options){"ring": nil, "queue": queueOnly} {
		t.Run(name, func(t *testing.T) {
			_, a, b := openPacket(change).OpenPair(t, 4200)
			linktest.RunFaults(t, linktest.Pair{A: a, B: b}, inject)
		})
	}
}

func TestDead(t *testing.T) {
	seeds.Slow(t)
	n := linktest.NewNet(t, 1500)
	b := openPacket(nil).Open(t, n.B, n.B4)
	open := func(t *testing.T) link.Link { return openPacket(queueOnly).In(t, n.A, n.A4) }
	linktest.RunDead(t, open, b, inject)
}
