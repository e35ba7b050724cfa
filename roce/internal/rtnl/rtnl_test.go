package rtnl

import (
	"net/netip"
	"os"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
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
	require.Contains(t, addrs, Address{lo.Index, netip.MustParseAddr("127.0.0.1"), unix.IFA_F_PERMANENT})
	// A refusal does not spoil the next answer.
	_, err = c.Neighbour(NeighbourKey{Index: 0x7FFFFFFF, Addr: netip.MustParseAddr("192.0.2.1")})
	require.ErrorIs(t, err, unix.ENODEV)
	_, err = c.Neighbour(NeighbourKey{Index: lo.Index, Addr: netip.MustParseAddr("192.0.2.1")})
	require.Equal(t, unix.ENOENT, err)
	_, err = c.Route(netip.MustParseAddr("0.0.0.1"), netip.MustParseAddr("192.0.2.1"), 0)
	require.IsType(t, unix.Errno(0), err)
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
	require.ErrorIs(t, <-done, os.ErrClosed)
	require.ErrorIs(t, m.Next(func(Event) {}), os.ErrClosed)
}

// FuzzParse: no message, whatever it holds, makes reading panic.
func FuzzParse(f *testing.F) {
	request, err := neighbourRequest(NeighbourKey{7, netip.MustParseAddr("192.0.2.1")}, 0)
	require.NoError(f, err)
	f.Add(request)
	ae := netlink.NewAttributeEncoder()
	ae.String(unix.IFLA_IFNAME, "eth0")
	ae.Uint32(unix.IFLA_MTU, 1500)
	attrs, err := ae.Encode()
	require.NoError(f, err)
	f.Add(append(make([]byte, unix.SizeofIfInfomsg), attrs...))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseLink(b)
		parseNeighbour(b)
		parseRoute(b)
		parseAddress(b)
	})
}

// What was built is read back.
func TestNeighbourRoundTrip(t *testing.T) {
	k := NeighbourKey{7, netip.MustParseAddr("2001:db8::5")}
	b, err := neighbourRequest(k, unix.NTF_USE)
	require.NoError(t, err)
	require.EqualValues(t, unix.NTF_USE, b[10])
	native.PutUint16(b[8:], unix.NUD_STALE)
	ae := netlink.NewAttributeEncoder()
	ae.Bytes(unix.NDA_LLADDR, []byte{2, 0, 0, 0, 0, 9})
	attrs, err := ae.Encode()
	require.NoError(t, err)
	b = append(b, attrs...)
	n, ok := parseNeighbour(b)
	require.True(t, ok)
	require.Equal(t, Neighbour{k, MAC{2, 0, 0, 0, 0, 9}, unix.NUD_STALE}, n)
	require.True(t, n.Valid() && n.Stale() && !n.Failed())
	for end := range b {
		if got, ok := parseNeighbour(b[:end]); ok {
			require.Equal(t, k, got.NeighbourKey, "%d of %d bytes", end, len(b))
		}
	}
}

// A route is read with all that links look at, the gateway of the other family included.
func TestParseRoute(t *testing.T) {
	gateway := netip.MustParseAddr("fe80::1")
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.RTA_OIF, 3)
	ae.Bytes(unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, gateway.AsSlice()...))
	ae.Nested(unix.RTA_METRICS, func(ae *netlink.AttributeEncoder) error {
		ae.Uint32(unix.RTAX_MTU, 1400)
		return nil
	})
	attrs, err := ae.Encode()
	require.NoError(t, err)
	b := append(make([]byte, unix.SizeofRtMsg), attrs...)
	b[7] = unix.RTN_UNICAST
	r, ok := parseRoute(b)
	require.True(t, ok)
	require.Equal(t, Route{Type: unix.RTN_UNICAST, Index: 3, Gateway: gateway, MTU: 1400}, r)
}

func TestStates(t *testing.T) {
	for flags, up := range map[uint32]bool{unix.IFF_UP | unix.IFF_LOWER_UP: true, unix.IFF_UP: false,
		unix.IFF_LOWER_UP: false} {
		require.Equal(t, up, (&Link{Flags: flags}).Up(), "%#x", flags)
	}
	for flags, usable := range map[uint32]bool{
		0: true, unix.IFA_F_TENTATIVE: false, unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC: true,
		unix.IFA_F_OPTIMISTIC: true, unix.IFA_F_DADFAILED: false,
		unix.IFA_F_DADFAILED | unix.IFA_F_TENTATIVE | unix.IFA_F_OPTIMISTIC: false,
	} {
		require.Equal(t, usable, (&Address{Flags: flags}).Usable(), "%#x", flags)
	}
}

// A message that is shorter than its fixed part says nothing.
func TestShortMessages(t *testing.T) {
	_, ok := parseLink(make([]byte, unix.SizeofIfInfomsg-1))
	require.False(t, ok)
	_, ok = parseAddress(make([]byte, unix.SizeofIfAddrmsg-1))
	require.False(t, ok)
	_, ok = parseNeighbour(make([]byte, unix.SizeofNdMsg-1))
	require.False(t, ok)
	_, ok = parseRoute(make([]byte, unix.SizeofRtMsg-1))
	require.False(t, ok)
	r, ok := parseRoute(make([]byte, unix.SizeofRtMsg))
	require.True(t, ok)
	require.Zero(t, r)
}

// Without IFA_FLAGS there are those of the fixed part.
func TestAddressFlags(t *testing.T) {
	attrs := netlink.NewAttributeEncoder()
	attrs.Bytes(unix.IFA_LOCAL, []byte{192, 0, 2, 1})
	b, err := attrs.Encode()
	require.NoError(t, err)
	a, ok := parseAddress(append([]byte{unix.AF_INET, 24, unix.IFA_F_TENTATIVE, 9, 5, 0, 0, 0}, b...))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("192.0.2.1"), a.Addr)
	require.EqualValues(t, unix.IFA_F_TENTATIVE, a.Flags)
}

func TestClosed(t *testing.T) {
	c, err := Dial()
	if err != nil {
		t.Skipf("no rtnetlink: %v", err)
	}
	require.NoError(t, c.Close())
	_, err = c.Links()
	require.Error(t, err)
}

// What is neither an interface, nor a neighbour, nor an address, is about routes.
func TestTell(t *testing.T) {
	var got []Event
	tell(func(e Event) { got = append(got, e) }, netlink.Message{Header: netlink.Header{Type: unix.RTM_NEWROUTE}})
	require.Equal(t, []Event{{Routes: true}}, got)
}
