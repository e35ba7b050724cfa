package rtnl

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/internal/unix"
	"github.com/mdlayher/netlink"
)

// native is the byte order of netlink messages.
var native = binary.NativeEndian

// MAC is an Ethernet address.
type MAC [6]byte

// Link is a network interface.
type Link struct {
	Index int
	Name  string
	Type  uint16 // ARPHRD_*
	Flags uint32 // IFF_*
	MTU   int    // bytes of IP packet
	MAC   MAC
	// GSOMax is the longest segmentation offload packet that the interface
	// takes, in bytes; 0 if the kernel does not say.
	GSOMax int
}

// Up reports whether the interface can carry packets: it is switched on and has a carrier.
func (l *Link) Up() bool { return l.Flags&unix.IFF_UP != 0 && l.Flags&unix.IFF_LOWER_UP != 0 }

// Ethernet reports whether frames of the interface begin with an Ethernet
// header: those of the loopback interface do, too.
func (l *Link) Ethernet() bool { return l.Type == unix.ARPHRD_ETHER || l.Type == unix.ARPHRD_LOOPBACK }

// Neighbour is an entry of the kernel's neighbour table (ARP, NDP).
type Neighbour struct {
	NeighbourKey
	MAC   MAC
	State uint16 // NUD_*
}

// NeighbourKey identifies an entry of the table.
type NeighbourKey struct {
	Index int // of the interface
	Addr  netip.Addr
}

// nudValid are the states in which the MAC is known (NUD_VALID of the kernel).
const nudValid = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_PROBE |
	unix.NUD_STALE | unix.NUD_DELAY

// Valid reports whether the MAC can be used.
func (n *Neighbour) Valid() bool { return n.State&nudValid != 0 }

// Stale reports whether the MAC was not confirmed for a while, and nobody is about to.
func (n *Neighbour) Stale() bool { return n.State&unix.NUD_STALE != 0 }

// Failed reports whether the neighbour did not answer.
func (n *Neighbour) Failed() bool { return n.State&unix.NUD_FAILED != 0 }

// Address is a local address.
type Address struct {
	Index int // of the interface
	Addr  netip.Addr
	Flags uint32 // IFA_F_*
}

// Usable reports whether sockets can be bound to the address: one of IPv6 has passed the test for
// duplicates.
func (a *Address) Usable() bool {
	return a.Flags&unix.IFA_F_DADFAILED == 0 &&
		(a.Flags&unix.IFA_F_TENTATIVE == 0 || a.Flags&unix.IFA_F_OPTIMISTIC != 0)
}

// Route is the kernel's choice for a destination.
type Route struct {
	Type    uint8      // RTN_*
	Index   int        // of the interface to send on
	Gateway netip.Addr // invalid if the destination is a neighbour itself
	MTU     int        // of the route, bytes; 0 if that of the interface holds
}

// attributes calls f for each attribute in b, and reports whether b was well-formed.
func attributes(b []byte, f func(a *netlink.AttributeDecoder)) bool {
	a, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return false
	}
	for a.Next() {
		f(a)
	}
	return a.Err() == nil
}

func ipAddr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

// parseLink reads the body of RTM_NEWLINK or RTM_DELLINK.
func parseLink(b []byte) (l Link, ok bool) {
	if len(b) < unix.SizeofIfInfomsg {
		return l, false
	}
	l.Type = native.Uint16(b[2:])
	l.Index = int(native.Uint32(b[4:]))
	l.Flags = native.Uint32(b[8:])
	ok = attributes(b[unix.SizeofIfInfomsg:], func(a *netlink.AttributeDecoder) {
		switch a.Type() {
		case unix.IFLA_IFNAME:
			l.Name = a.String()
		case unix.IFLA_MTU:
			l.MTU = int(a.Uint32())
		case unix.IFLA_ADDRESS:
			copy(l.MAC[:], a.Bytes())
		case unix.IFLA_GSO_MAX_SIZE:
			l.GSOMax = int(a.Uint32())
		}
	})
	return l, ok
}

// parseAddress reads the body of RTM_NEWADDR or RTM_DELADDR.
func parseAddress(b []byte) (addr Address, ok bool) {
	if len(b) < unix.SizeofIfAddrmsg {
		return addr, false
	}
	addr.Index = int(native.Uint32(b[4:]))
	addr.Flags = uint32(b[2])
	local := false
	ok = attributes(b[unix.SizeofIfAddrmsg:], func(a *netlink.AttributeDecoder) {
		// With both, IFA_ADDRESS is the other end of a point-to-point interface.
		if a.Type() == unix.IFA_LOCAL || a.Type() == unix.IFA_ADDRESS && !local {
			addr.Addr, local = ipAddr(a.Bytes()), a.Type() == unix.IFA_LOCAL
		}
		if a.Type() == unix.IFA_FLAGS {
			addr.Flags = a.Uint32() // more than the one byte holds
		}
	})
	return addr, ok && addr.Addr.IsValid()
}

// parseNeighbour reads the body of RTM_NEWNEIGH or RTM_DELNEIGH.
func parseNeighbour(b []byte) (n Neighbour, ok bool) {
	if len(b) < unix.SizeofNdMsg {
		return n, false
	}
	n.Index = int(native.Uint32(b[4:]))
	n.State = native.Uint16(b[8:])
	ok = attributes(b[unix.SizeofNdMsg:], func(a *netlink.AttributeDecoder) {
		switch a.Type() {
		case unix.NDA_DST:
			n.Addr = ipAddr(a.Bytes())
		case unix.NDA_LLADDR:
			copy(n.MAC[:], a.Bytes())
		}
	})
	return n, ok && n.Addr.IsValid()
}

// parseRoute reads the body of RTM_NEWROUTE.
func parseRoute(b []byte) (r Route, ok bool) {
	if len(b) < unix.SizeofRtMsg {
		return r, false
	}
	r.Type = b[7]
	ok = attributes(b[unix.SizeofRtMsg:], func(a *netlink.AttributeDecoder) {
		switch a.Type() {
		case unix.RTA_OIF:
			r.Index = int(a.Uint32())
		case unix.RTA_GATEWAY:
			r.Gateway = ipAddr(a.Bytes())
		case unix.RTA_VIA: // a gateway of the other family
			if via := a.Bytes(); len(via) > 2 {
				r.Gateway = ipAddr(via[2:])
			}
		case unix.RTA_METRICS:
			attributes(a.Bytes(), func(a *netlink.AttributeDecoder) {
				if a.Type() == unix.RTAX_MTU {
					r.MTU = int(a.Uint32())
				}
			})
		}
	})
	return r, ok
}
