package nexthop

import (
	"net/netip"

	"github.com/goroce/goroce/roce/internal/rtnl"
)

// multicastMAC returns the MAC address of a multicast group (RFC 1112, RFC 2464).
func multicastMAC(group netip.Addr) rtnl.MAC {
	a := group.As16()
	if group.Is4() {
		return rtnl.MAC{0x01, 0x00, 0x5E, a[13] & 0x7F, a[14], a[15]}
	}
	return rtnl.MAC{0x33, 0x33, a[12], a[13], a[14], a[15]}
}
