package docs

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// guide: begin simulate
// A network that loses one packet of twenty, in virtual time: the same in each run.
func TestEcho(t *testing.T) {
	sim.Test(t, sim.Config{Seed: 1, Faults: sim.Faults{Loss: 0.05}}, func(t *testing.T, net *sim.Fabric) {
		device := func(addr string) *verbs.Device {
			host, err := net.Link(netip.MustParseAddr(addr))
			if err != nil {
				t.Fatal(err)
			}
			d, err := verbs.Open(verbs.Config{Link: host})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		}
		lc := roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: device("192.0.2.1")}}
		l, err := lc.Listen(t.Context(), "192.0.2.1:7471")
		if err != nil {
			t.Fatal(err)
		}
		go l.Serve(t.Context(), echo)
		d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: device("192.0.2.2")}}
		c, err := d.Dial(t.Context(), "192.0.2.1:7471")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 100 {
			if err := c.Send(t.Context(), make([]byte, 5000)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Recv(t.Context(), make([]byte, 5000)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// guide: end
