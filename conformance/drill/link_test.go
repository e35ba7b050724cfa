package drill

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// shortDrills is the share of the drills in the short tests: they mostly wait for nothing to come.
const shortDrills = 8

// All drills, those of RDMA-CM too, with the drill's own end on a link that goes around UDP: this
// module's device on the udp link is in another namespace, behind a cable.
func TestOnLinks(t *testing.T) {
	for _, name := range []string{"packet", "xdp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := linktest.NewNet(t, 9000)
			stranger := netip.AddrFrom4([4]byte{10, 99, 0, 77})
			n.A.Run("ip", "addr", "add", stranger.String()+"/32", "dev", linktest.Device)
			n.B.Run("ip", "route", "add", stranger.String()+"/32", "dev", linktest.Device)
			var dev *verbs.Device
			n.B.Do(func() {
				addrs := []netip.Addr{n.B4, n.B6}
				l, err := udp.Open(addrs, udp.Options{DisableGSO: true})
				require.NoError(t, err)
				dev, err = verbs.Open(verbs.Config{Addrs: addrs, Link: l})
				require.NoError(t, err)
			})
			p := peer.GoroceOn(dev, peer.GorocePlace{Addr4: n.B4, Addr6: n.B6, Link: "udp"})
			target, err := NewPeer(PeerConfig{
				Name: name, Profile: Goroce, Peer: p,
				Local:    map[peer.Family]netip.Addr{peer.V4: n.A4, peer.V6: n.A6},
				Stranger: map[peer.Family]netip.Addr{peer.V4: stranger},
				Link:     func(addrs []netip.Addr) (link.Link, error) { return peer.OpenBareLink(name, addrs) },
				Place: func(f func() error) (err error) {
					n.A.Do(func() { err = f() })
					return err
				},
				Listen: func(typ peer.Type) (int, func() error, error) { return background(dev, n.B4, typ) },
			})
			require.NoError(t, err)
			t.Cleanup(func() {
				require.NoError(t, target.Close())
				require.NoError(t, dev.Close())
			})
			for i, d := range List() {
				if testing.Short() && i%shortDrills != 0 {
					continue
				}
				r := Run(t.Context(), d, target, Options{Profile: Goroce})
				if slices.Contains(d.Needs, NeedFlowLabel) || slices.Contains(d.Needs, NeedUplink) {
					// Nothing here shows the one, or does the other.
					require.Equal(t, Skip, r.Verdict, "%v\n%s", r, r.Ladder)
					continue
				}
				require.Contains(t, []Verdict{Pass, Deviates}, r.Verdict, "%v\n%s", r, r.Ladder)
			}
		})
	}
}

// slowLink hands up one packet, long after it has said that there is nothing.
type slowLink struct {
	link.Link
	calls int
}

func (l *slowLink) Recv(batch []transport.RxPacket) (int, error) {
	l.calls++
	if l.calls != 2 {
		return 0, nil
	}
	batch[0].Data = []byte{1}
	return 1, nil
}

func (l *slowLink) Wait(time.Duration) error {
	if l.calls == 1 {
		return nil
	}
	return link.ErrClosed
}

// A link has no time stamps: a packet may have come at any time since there was none.
func TestLinkIsLate(t *testing.T) {
	got, fail := make(chan Datagram, 1), make(chan error, 1)
	var clock time.Duration
	now := func() time.Duration {
		clock += time.Second
		return clock
	}
	<-newLinkEnd(new(slowLink), now, got, fail).done
	require.ErrorIs(t, <-fail, link.ErrClosed)
	d := <-got
	require.Equal(t, 4*time.Second, d.At)
	require.Equal(t, 3*time.Second, d.Late, "since the first look")
}
