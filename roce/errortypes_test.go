package roce_test

import (
	"context"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// There is one type of error for wrong arguments, one for devices that cannot be opened and one for
// operations that failed, whichever package has found it and by whichever package's name somebody
// asks for it.
func TestOneTypeOfEachError(t *testing.T) {
	two := func(_ any, err error) error { return err }
	d := rocetest.SimDevices(t, sim.New(sim.Config{}), 1)[0]
	nobodys := []netip.Addr{netip.MustParseAddr("192.0.2.77")}
	to := netip.AddrPortFrom(nobodys[0], 7471)

	for name, f := range map[string]func() error{
		"transport":    func() error { return two(transport.New(transport.Config{})) },
		"udp":          func() error { return two(udp.Open(nobodys, udp.Options{RxBuffers: -1})) },
		"packet":       func() error { return two(packet.Open(packet.Options{Addrs: nobodys, RxBuffers: -1})) },
		"xdp":          func() error { return two(xdp.Open(xdp.Options{Addrs: nobodys, RxFrames: 3})) },
		"verbs":        func() error { return two(verbs.Open(verbs.Config{Shards: -1})) },
		"verbs, below": func() error { return two(d.CreateCQ(-1, nil)) },
		"verbs, link": func() error {
			return two(verbs.Open(verbs.Config{Addrs: nobodys, UDP: udp.Options{RxBuffers: -1}}))
		},
		"rdmacm": func() error { return two(rdmacm.CreateID(nil, rdmacm.PortSpaceTCP)) },
		"roce": func() error {
			return two((&roce.ListenConfig{
				ConnConfig: roce.ConnConfig{Device: d}, Backlog: -1,
			}).ListenAddr(netip.AddrPortFrom(rocetest.SimAddr(1), 1)))
		},
		"rsocket": func() error { return two((&rsocket.ListenConfig{Device: d, Backlog: -1}).ListenAddr(to)) },
	} {
		t.Run("argument, "+name, func(t *testing.T) {
			err := f()
			t.Log(err)
			var t1 *transport.ArgError
			var t2 *verbs.ArgError
			var t3 *roce.ArgError
			require.ErrorAs(t, err, &t1)
			require.ErrorAs(t, err, &t2)
			require.ErrorAs(t, err, &t3)
			require.NotEmpty(t, t3.Arg)
			require.ErrorIs(t, err, roce.ErrInvalidAttr)
			require.ErrorIs(t, err, transport.ErrInvalidAttr)
			require.ErrorIs(t, err, syscall.EINVAL)
		})
	}

	for name, f := range map[string]func() error{
		"udp":     func() error { return two(udp.Open(nobodys, udp.Options{})) },
		"packet":  func() error { return two(packet.Open(packet.Options{Addrs: nobodys})) }, // perhaps since we may not
		"xdp":     func() error { return two(xdp.Open(xdp.Options{Addrs: nobodys})) },
		"verbs":   func() error { return two(verbs.Open(verbs.Config{Addrs: nobodys})) },
		"roce":    func() error { return two((&roce.ListenConfig{}).ListenAddr(to)) },
		"rsocket": func() error { return two((&rsocket.ListenConfig{}).ListenAddr(to)) },
	} {
		t.Run("open, "+name, func(t *testing.T) {
			err := f()
			t.Log(err)
			var t1 *link.OpenError
			var t2 *verbs.OpenError
			var t3 *roce.OpenError
			require.ErrorAs(t, err, &t1)
			require.ErrorAs(t, err, &t2)
			require.ErrorAs(t, err, &t3)
			require.NotNil(t, t3.Err)
		})
	}

	end := rocetest.NewEnd(t, d, 4096, verbs.QPInitAttr{})
	over, cancel := context.WithCancel(rocetest.Context(t))
	cancel()
	for name, f := range map[string]func() error{
		"verbs, memory": end.PD.Close,
		"verbs, engine": func() error { return end.QP.PostSend(&verbs.SendWR{}) },
		"roce": func() error {
			return two((&roce.Dialer{ConnConfig: roce.ConnConfig{Device: d}}).DialAddr(over, to))
		},
	} {
		t.Run("operation, "+name, func(t *testing.T) {
			err := f()
			t.Log(err)
			var t1 *verbs.OpError
			var t2 *roce.OpError
			require.ErrorAs(t, err, &t1)
			require.ErrorAs(t, err, &t2)
			require.NotEmpty(t, t2.Op)
		})
	}
}
