package endpoint

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

var here, there = netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")

// freePort returns a port of the address that nobody has at the moment.
func freePort(t *testing.T, a netip.Addr) uint16 {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	require.NoError(t, err)
	defer c.Close()
	return uint16(c.LocalAddr().(*net.UDPAddr).Port)
}

// opened opens the local end of a link on the loopback interface. said is what Listen was
// called with.
func opened(t *testing.T, addrs ...netip.Addr) (l *Local, said *[]string) {
	l, said = &Local{}, &[]string{}
	err := l.Open(Options{
		Name: "test", Addrs: addrs, Port: freePort(t, addrs[0]),
		Listen: func(group netip.Addr, index int, on bool) error {
			*said = append(*said, fmt.Sprint(group, on))
			return nil
		},
	})
	t.Cleanup(func() {
		require.NoError(t, l.Stop())
		require.NoError(t, l.Close())
	})
	require.NoError(t, err)
	return l, said
}

// The port is nobody else's until Close.
func TestPortReservation(t *testing.T) {
	l := &Local{}
	at := netip.AddrPortFrom(here, freePort(t, here))
	require.NoError(t, l.Open(Options{Name: "test", Addrs: []netip.Addr{here}, Port: at.Port()}))
	other := &Local{}
	err := other.Open(Options{Name: "test", Addrs: []netip.Addr{here}, Port: at.Port()})
	require.ErrorIs(t, err, unix.EADDRINUSE)
	var oe *link.OpenError
	require.ErrorAs(t, err, &oe)
	require.NotEmpty(t, oe.Hint)
	require.NoError(t, other.Stop())
	require.NoError(t, other.Close())
	_, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	require.ErrorIs(t, err, unix.EADDRINUSE)
	require.NoError(t, l.Stop())
	require.NoError(t, l.Close())
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// Joins are counted for each local address, and the link is told of the first and the last
// of an interface.
func TestGroups(t *testing.T) {
	l, said := opened(t, here, there)
	group := netip.MustParseAddr("239.1.2.3")
	require.Error(t, l.Leave(group, here), "not joined")
	require.Error(t, l.Join(here, here), "not a group")
	require.Error(t, l.Join(group, netip.MustParseAddr("127.0.0.3")), "not an address of the link")
	require.NoError(t, l.Join(group, here))
	require.NoError(t, l.Join(group, here))
	require.NoError(t, l.Join(group, there))
	require.Equal(t, []string{"239.1.2.3 true"}, *said)
	require.NoError(t, l.Leave(group, here))
	require.NoError(t, l.Leave(group, here))
	require.Len(t, *said, 1, "joined from the other address of the interface")
	require.NoError(t, l.Leave(group, there))
	require.Equal(t, []string{"239.1.2.3 true", "239.1.2.3 false"}, *said)
	require.NoError(t, l.Stop())
	require.ErrorIs(t, l.Join(group, here), link.ErrClosed)
}

// A path has the link's ports where the transport leaves them open, and none is begun that
// cannot be sent on.
func TestPath(t *testing.T) {
	l, _ := opened(t, here)
	var s transmit.Path
	require.False(t, l.Path(&s, &edge.Path{Src: there, Dst: here}, false), "not from here")
	require.False(t, l.Path(&s, &edge.Path{Src: here, Dst: netip.IPv6Loopback()}, false), "another family")
	p := &edge.Path{Src: here, Dst: there, TrafficClass: 5}
	require.True(t, l.Path(&s, p, true))
	require.True(t, s.ICRC.RxeFlush)
	require.Equal(t, [2]uint16{l.Port(), l.Port()}, [2]uint16{s.Flow.SrcPort, s.Flow.DstPort})
	p.SrcPort = 0xC123
	require.True(t, l.Path(&s, p, false))
	require.EqualValues(t, 0xC123, s.Flow.SrcPort)
	require.EqualValues(t, 5, s.Flow.TrafficClass)
}

// What cannot be opened is refused with a reason, and leaves nothing behind.
func TestOpenErrors(t *testing.T) {
	for name, o := range map[string]Options{
		"no address":   {},
		"unspecified":  {Addrs: []netip.Addr{netip.IPv4Unspecified()}},
		"multicast":    {Addrs: []netip.Addr{netip.MustParseAddr("239.1.2.3")}},
		"invalid":      {Addrs: []netip.Addr{{}}},
		"twice":        {Addrs: []netip.Addr{here, netip.MustParseAddr("::ffff:127.0.0.1")}},
		"not local":    {Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
		"a large VLAN": {Addrs: []netip.Addr{here}, VLAN: 4095},
	} {
		l := &Local{}
		err := l.Open(o)
		var oe *link.OpenError
		require.ErrorAs(t, err, &oe, name)
		require.NoError(t, l.Stop())
		require.NoError(t, l.Close())
	}
}

// Begin takes the interfaces' MTU, and says what is too small.
func TestBegin(t *testing.T) {
	l, _ := opened(t, here)
	require.Error(t, l.Begin(func(int) int { return 100 }, 0))
	require.NoError(t, l.Begin(func(int) int { return 1 << 16 }, ib.MTU1024))
	require.Equal(t, ib.MTU1024, l.State.MTU())
	l.State.Watch(func(s link.PortState) { require.True(t, s.Up) })
}

// An interface that has changed since it was looked at is told of, and so is one that has gone.
func TestCatchUp(t *testing.T) {
	type change struct {
		k    rtnl.Link
		gone bool
	}
	var told []change
	l, _ := opened(t, here)
	l.o.LinkChanged = func(k rtnl.Link, gone bool) { told = append(told, change{k, gone}) }
	index := l.Indexes()[0]
	now, ok := l.Hops.Link(index)
	require.True(t, ok)
	l.catchUp(index, now)
	require.Empty(t, told)
	old := now
	old.MTU--
	l.catchUp(index, old)
	l.catchUp(1<<30, old)
	require.Equal(t, []change{{now, false}, {old, true}}, told)
}

// An address that has moved takes its groups along.
func TestMovedGroups(t *testing.T) {
	l, _ := opened(t, here, there)
	require.NoError(t, l.Begin(func(int) int { return 1 << 16 }, 0))
	g, h := netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("239.1.2.4")
	require.NoError(t, l.Join(g, here))
	require.NoError(t, l.Join(h, there))
	index := l.Indexes()[0]
	l.reserved[0].index = index + 1<<20
	require.Error(t, l.reserved[0].leave(g))
	l.reserved[0].index = index
	require.NoError(t, l.reserved[0].leave(g)) // as the kernel does when the interface goes
	var bound []rtnl.Link
	l.moved(0, func(k rtnl.Link) { bound = append(bound, k) })
	require.Len(t, bound, 1)
	require.Equal(t, index, bound[0].Index)
	require.Error(t, l.reserved[0].leave(h), "joined from elsewhere")
	require.NoError(t, l.Leave(g, here))
	require.NoError(t, l.Leave(h, there))
}
