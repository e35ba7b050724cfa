package ib

import "net/netip"

// GID is a 128-bit global identifier. On RoCE v2 it is an IPv6 address, or an
// IPv4 address in its IPv4-mapped form ::ffff:a.b.c.d (annex A17).
type GID [16]byte

// GIDFromAddr returns the GID of an IP address; the zone is dropped.
func GIDFromAddr(a netip.Addr) GID { return GID(a.As16()) }

// Addr returns the IP address of g; for an IPv4-mapped GID an IPv4 address.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IsZero reports whether g is the reserved all-zero GID.
func (g GID) IsZero() bool { return g == GID{} }

// IsMulticast reports whether g is a multicast group, including an IPv4-mapped one (224.0.0.0/4).
func (g GID) IsMulticast() bool { return g.Addr().IsMulticast() }

// String formats all 16 bytes as eight groups, like the verbs tools, so that an IPv4-mapped GID is
// easy to recognise.
func (g GID) String() string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 39)
	for i, b := range g {
		if i > 0 && i%2 == 0 {
			out = append(out, ':')
		}
		out = append(out, digits[b>>4], digits[b&15])
	}
	return string(out)
}
