package rsocket

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// What every net.Conn has to do, as the Go project tests it.
func TestConn(t *testing.T) {
	networks(t, func(t *testing.T, n *network) {
		nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
			c, s, err := n.connect(testContext(t), Config{}, Config{})
			if err != nil {
				return nil, nil, nil, err
			}
			return c, s, func() {
				_ = c.SetLinger(0) // what the other has not read, it never reads; fails if it is closed
				_ = s.SetLinger(0)
				c.Close()
				s.Close()
			}, nil
		})
		n.quiet(t, n.a)
		if m := n.a.MemCounts(); m.Regions > 1 { // one is the communication manager's
			t.Errorf("%d memory regions are left", m.Regions)
		}
	})
}
