package hosts

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the kernel shows of a device on each link.
func TestLinkInUse(t *testing.T) {
	const (
		device  = "5: host0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc pfifo_fast state UP mode DEFAULT group default qlen 10000\n"
		heading = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n"
		sockets = "   26: 6400004D:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 7031 2 0000000000000000 0\n"
	)
	for name, c := range map[string]struct{ device, packet, udp, want string }{
		"nothing":          {device, heading, "", ""},
		"udp":              {device, heading, sockets, "udp"},
		"packet":           {device, heading + "0000 3 3 0003 5 1 0 0 7032\n", sockets, "packet"},
		"xdp":              {device + "    prog/xdp id 12 name goroce tag 9c1b\n", heading, sockets, "xdp"},
		"xdp, with packet": {device + "    prog/xdp id 12\n", heading + "0000 3 3 0003 5 1 0 0 7032\n", "", "xdp"},
	} {
		require.Equal(t, c.want, linkInUse(c.device, c.packet, c.udp), name)
	}
}

func TestRxeGroup(t *testing.T) {
	require.Equal(t, "3333ef4d5c07", rxeGroup(netip.MustParseAddr("239.77.92.7")))
	require.Equal(t, "333300770048", rxeGroup(netip.MustParseAddr("ff0e::77:48")))
}
