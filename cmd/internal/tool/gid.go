package tool

import (
	"fmt"
	"net/netip"
)

// GIDText formats the GID of an address as inet_ntop does for IPv6, and so the originals: an IPv4
// address in its mapped form.
func GIDText(a netip.Addr) string {
	if a.Is4() {
		return "::ffff:" + a.String()
	}
	return a.String()
}

// GIDIndex returns the index of the GID that an option means, on a device with these addresses. The
// only address of a device has the places 0 to 3, as in the table that "roce run" shows to
// programs.
func GIDIndex(option string, index int, addrs []netip.Addr) (int, error) {
	if len(addrs) == 1 && index <= 3 {
		return 0, nil
	}
	if index >= len(addrs) {
		return 0, fmt.Errorf("%s %d: the GID table has %d entries (%v); --addr takes several addresses, with commas",
			option, index, len(addrs), addrs)
	}
	return index, nil
}
