//go:build linux

package xdp_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// Somebody takes the program from the interface: the kernel lets nobody replace
// it, but who detaches it is noticed with the next change of the interface.
func TestDetached(t *testing.T) {
	t.Parallel()
	n, l, _ := openPair(t, 1500)
	a := l.(*xdp.Link)
	var last link.PortState
	down := make(chan struct{})
	a.Watch(func(s link.PortState) {
		if last.Up && !s.Up {
			close(down)
		}
		last = s
	})
	var foreign error
	n.A.Do(func() { foreign = a.AttachAnother() })
	require.ErrorIs(t, foreign, unix.EBUSY)
	require.NoError(t, a.DetachProgram())
	n.A.Run("ip", "link", "set", linktest.Device, "txqueuelen", "77")
	<-down
	err := a.Wait(-1)
	for err == nil { // a wake for something else
		err = a.Wait(-1)
	}
	var detached *xdp.DetachedError
	require.ErrorAs(t, err, &detached)
	require.Equal(t, linktest.Device, detached.Interface)
	_, err = a.Recv(make([]edge.RxPacket, 1))
	require.ErrorAs(t, err, &detached)
}

// A link that was closed has left the interface, whatever copies there are of its descriptors.
func TestCloseDetaches(t *testing.T) {
	t.Parallel()
	n := linktest.NewNet(t, 1500)
	a := openXDP().In(t, n.A, n.A4).(*xdp.Link)
	release, err := a.CopyDescriptor()
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.NotContains(t, n.A.Run("ip", "-details", "link", "show", linktest.Device), "prog/xdp")
	require.NoError(t, release())
}

// One of two interfaces is removed and made again, with the index that it had:
// packets that would leave by it are unreachable, and those by the other arrive.
func TestOneOfTwoDetached(t *testing.T) {
	seeds.Slow(t)
	t.Parallel()
	const second, index = "second", "51"
	n := linktest.NewNet(t, 1500)
	plug := func() {
		n.A.Run("ip", "link", "add", second, "index", index, "type", "veth", "peer", "name", second,
			"netns", n.B.Path())
		n.A.Run("ip", "addr", "add", "10.77.0.1/24", "dev", second)
		n.A.Run("ip", "link", "set", second, "up")
		n.B.Run("ip", "addr", "add", "10.77.0.2/24", "dev", second)
		n.B.Run("ip", "link", "set", second, "up")
		n.A.Run("ip", "neigh", "replace", "10.77.0.2", "lladdr", n.MACB, "dev", second, "nud", "permanent")
	}
	plug()
	a2 := netip.MustParseAddr("10.77.0.1")
	var l *xdp.Link
	var err error
	n.A.Do(func() { l, err = xdp.Open(xdp.Options{Addrs: []netip.Addr{n.A4, a2}}) })
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	b := openXDP().Open(t, n.B, n.B4)
	paths := []*edge.Path{linktest.NewPath(l, b), {Src: a2, Dst: netip.MustParseAddr("10.77.0.2"), HopLimit: 9}}
	linktest.Reaches(t, l, b, paths[0])
	linktest.SendUntil(t, l, paths[1], func() bool { return l.Stats().TxUnreachable == 0 && l.Stats().TxPackets > 10 })
	down := func() bool { return l.Stats().TxUnreachable > 0 }
	n.A.Run("ip", "link", "del", second)
	linktest.SendUntil(t, l, paths[1], down)
	// Nothing of the one that is gone disturbs the wait for the other.
	require.NoError(t, l.Wait(0))
	slept := false
	for range 3 {
		require.Zero(t, linktest.Drain(t, l))
		start := l.Now()
		require.NoError(t, l.Wait(20e6))
		slept = slept || l.Now()-start > 10e6
	}
	require.True(t, slept)
	plug()
	for range 3 { // before and after the route is known to be back
		linktest.Reaches(t, l, b, paths[0])
		since := l.Stats()
		linktest.SendAll(t, l, []edge.TxPacket{linktest.Packet(rand.New(rand.NewPCG(1, 1)),
			&edge.Path{Src: a2, Dst: paths[1].Dst, HopLimit: 9}, 8)})
		now := l.Stats()
		require.Equal(t, since.TxUnreachable+1, now.TxUnreachable)
		require.Equal(t, since.TxPackets, now.TxPackets)
	}
}

// Sockets that somebody has closed are an error, not a wait that returns at once for ever.
func TestSocketsLost(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	a := openXDP().In(t, n.A, n.A4)
	a.(*xdp.Link).LoseSockets()
	require.ErrorIs(t, a.Wait(-1), unix.EBADF)
	require.ErrorIs(t, a.Close(), unix.EBADF)
}
