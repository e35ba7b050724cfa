package rtnl

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func dial(t *testing.T) *Conn {
	c, err := Dial()
	if err != nil {
		t.Skipf("no rtnetlink: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestLoopback(t *testing.T) {
	c := dial(t)
	links, err := c.Links()
	require.NoError(t, err)
	var lo *Link
	for i := range links {
		if links[i].Name == "lo" {
			lo = &links[i]
		}
	}
	require.NotNil(t, lo)
	require.True(t, lo.Ethernet())
	require.NotZero(t, lo.Flags&unix.IFF_LOOPBACK)
	require.Positive(t, lo.MTU)
	if !lo.Up() {
		t.Skip("the loopback interface is down here")
	}
	r, err := c.Route(netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1"), 0)
	require.NoError(t, err)
	require.EqualValues(t, unix.RTN_LOCAL, r.Type)
	require.Equal(t, lo.Index, r.Index)
	require.False(t, r.Gateway.IsValid())
	addrs, err := c.Addresses()
	require.NoError(t, err)
	require.Contains(t, addrs, Address{lo.Index, netip.MustParseAddr("127.0.0.1")})
	// A refusal does not spoil the next answer.
	_, err = c.Neighbour(NeighbourKey{Index: 0x7FFFFFFF, Addr: netip.MustParseAddr("192.0.2.1")})
	require.Error(t, err)
	again, err := c.Links()
	require.NoError(t, err)
	require.Len(t, again, len(links))
}

func TestMonitorClose(t *testing.T) {
	m, err := NewMonitor()
	if err != nil {
		t.Skipf("no rtnetlink: %v", err)
	}
	done := make(chan error)
	go func() {
		for {
			if err := m.Next(func(Event) {}); err != nil {
				done <- err
				return
			}
		}
	}()
	require.NoError(t, m.Close())
	require.Error(t, <-done)
}

func FuzzMessages(f *testing.F) {
	m := newMessage(unix.RTM_NEWNEIGH, 0, unix.SizeofNdMsg).attr(unix.NDA_DST, []byte{1, 2, 3, 4}).attr32(99, 7)
	f.Add([]byte(m.finish(1)))
	f.Add([]byte(newMessage(unix.RTM_NEWLINK, 0, unix.SizeofIfInfomsg).attr(unix.IFLA_IFNAME, []byte("eth0\x00")).finish(2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		messages(b, func(_ header, body []byte) bool {
			parseLink(body)
			parseNeighbour(body)
			parseRoute(body)
			parseAddress(body)
			return true
		})
	})
}

// What was built is read back.
func TestMessageRoundTrip(t *testing.T) {
	a := netip.MustParseAddr("2001:db8::5")
	m := neighbourMessage(unix.RTM_NEWNEIGH, 0, NeighbourKey{Index: 7, Addr: a}).attr(unix.NDA_LLADDR, []byte{2, 0, 0, 0, 0, 9})
	native.PutUint16(m.fixed()[8:], unix.NUD_STALE)
	n := 0
	messages(append(m.finish(3), m.finish(4)...), func(h header, body []byte) bool {
		e, ok := parseNeighbour(body)
		require.True(t, ok)
		require.Equal(t, Neighbour{NeighbourKey{7, a}, MAC{2, 0, 0, 0, 0, 9}, unix.NUD_STALE}, e)
		require.True(t, e.Valid() && e.Stale() && !e.Failed())
		n++
		return true
	})
	require.Equal(t, 2, n)
}
