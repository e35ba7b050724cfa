//go:build linux

package xdp_test

import (
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/xdp"
)

func inject(l link.Link, f *linktest.Faults) { l.(*xdp.Link).Inject(f) }

func TestFaults(t *testing.T) {
	seeds.Slow(t)
	for name, change := range map[string]func(*xdp.Options){"native": nil, "generic": generic} {
		t.Run(name, func(t *testing.T) {
			_, a, b := openPair(t, 4200, change)
			linktest.RunFaults(t, linktest.Pair{A: a, B: b}, inject)
		})
	}
}
