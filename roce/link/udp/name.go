package udp

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/internal/unix"
)

// set fills in the address and returns the length of the struct. scope is the interface index for a
// link-local address.
func (n *rawName) set(a netip.Addr, port uint16, scope uint32) uint32 {
	if a.Is4() {
		s := n.in4()
		s.Family, s.Addr = unix.AF_INET, a.As4()
		binary.BigEndian.PutUint16(portBytes(&s.Port)[:], port)
		return unix.SizeofSockaddrInet4
	}
	n.in6 = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: a.As16()}
	if a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		n.in6.Scope_id = scope
	}
	binary.BigEndian.PutUint16(portBytes(&n.in6.Port)[:], port)
	return unix.SizeofSockaddrInet6
}

// get reads the address.
func (n *rawName) get() (netip.Addr, uint16) {
	if n.in6.Family == unix.AF_INET {
		s := n.in4()
		return netip.AddrFrom4(s.Addr), binary.BigEndian.Uint16(portBytes(&s.Port)[:])
	}
	return netip.AddrFrom16(n.in6.Addr), binary.BigEndian.Uint16(portBytes(&n.in6.Port)[:])
}
