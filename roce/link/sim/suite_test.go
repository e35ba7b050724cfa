package sim_test

import (
	"io"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/link/trace"
	"github.com/stretchr/testify/require"
)

// The suite for links, on a fabric, alone and under the middlewares.
func TestSuite(t *testing.T) {
	for name, wrap := range map[string]func(link.Link) (link.Link, error){
		"alone": func(l link.Link) (link.Link, error) { return l, nil },
		"trace": func(l link.Link) (link.Link, error) { return trace.New(l, io.Discard) },
		"fault": func(l link.Link) (link.Link, error) { return fault.New(l), nil },
	} {
		for family, addrs := range map[string][2]string{
			"IPv4": {"10.0.0.1", "10.0.0.2"}, "IPv6": {"fd00::1", "fd00::2"},
		} {
			if (testing.Short() || seeds.Race) && (family == "IPv6") != (name == "trace") {
				continue // one family each
			}
			t.Run(name+", "+family, func(t *testing.T) {
				linktest.Run(t, func(t *testing.T) (p linktest.Pair) {
					f := sim.New(sim.Config{Seed: 1})
					for i, l := range []*link.Link{&p.A, &p.B} {
						s, err := f.Link(netip.MustParseAddr(addrs[i]))
						require.NoError(t, err)
						*l, err = wrap(s)
						require.NoError(t, err)
					}
					return p
				})
			})
		}
	}
}
