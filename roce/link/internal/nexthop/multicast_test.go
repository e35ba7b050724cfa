package nexthop

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/stretchr/testify/require"
)

func TestMulticastMAC(t *testing.T) {
	require.Equal(t, rtnl.MAC{0x01, 0x00, 0x5E, 0x01, 0x02, 0x03}, multicastMAC(netip.MustParseAddr("239.129.2.3")))
	require.Equal(t, rtnl.MAC{0x33, 0x33, 0, 1, 0, 2}, multicastMAC(netip.MustParseAddr("ff15::1:2")))
}

// A multicast group is reached by the interface of the source, and nobody is asked.
func TestMulticast(t *testing.T) {
	all, err := net.Interfaces()
	require.NoError(t, err)
	lo := slices.IndexFunc(all, func(i net.Interface) bool { return i.Flags&net.FlagLoopback != 0 })
	if lo < 0 || all[lo].Flags&net.FlagUp == 0 {
		t.Skip("the loopback interface is not up here")
	}
	src, group := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("239.1.2.3")
	tab := open(t, Options{Addrs: []netip.Addr{src}, Indexes: []int{all[lo].Index}})
	s := tab.Get(group, src).State()
	require.Equal(t, Ready, s.Status)
	require.Equal(t, all[lo].Index, s.Index)
	require.Equal(t, rtnl.MAC{0x01, 0x00, 0x5E, 0x01, 0x02, 0x03}, s.Dst)
	require.Equal(t, all[lo].MTU, s.MTU)
	s = tab.Get(group, src.Next()).State()
	require.Equal(t, Failed, s.Status, "the source is no local address")
}
