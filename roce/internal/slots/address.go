package slots

import (
	"net/netip"

	"github.com/goroce/goroce/internal/unix"
)

// Address is an address that devices share.
type Address struct {
	Addr netip.Addr // without zone
	// Scope is the interface index of a link-local address, 0 for others.
	Scope int
	Port  uint16
}

func (a Address) family() int {
	if a.Addr.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func (a Address) sockaddr() unix.Sockaddr {
	if a.Addr.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port), Addr: a.Addr.As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port), Addr: a.Addr.As16(), ZoneId: uint32(a.Scope)}
}
