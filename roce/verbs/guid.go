package verbs

import (
	"encoding/binary"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
)

// nodeGUID returns the GUID of a device on an address. It is the same each time the device is
// opened, so that users can rely on it. It is derived from the network interface, as in rdma_rxe,
// or, without one (loopback, tunnels, a simulated link), from the address.
func nodeGUID(a netip.Addr, mac net.HardwareAddr) uint64 {
	if len(mac) == 6 && slices.Max(mac) != 0 {
		// The EUI-64 of an EUI-48, with the universal/local bit inverted (RFC 4291, appendix A).
		return binary.BigEndian.Uint64([]byte{mac[0] ^ 2, mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5]})
	}
	h := fnv.New64a()
	_, _ = h.Write(a.AsSlice())
	const group, local = 1 << 56, 2 << 56
	return h.Sum64()&^group | local
}

// hardwareAddr returns the hardware address of the interface that has the address; nil if there is
// none.
func hardwareAddr(a netip.Addr) net.HardwareAddr {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range ifs {
		addrs, _ := i.Addrs() // one that has just gone has none
		for _, n := range addrs {
			if p, err := netip.ParsePrefix(n.String()); err == nil && p.Addr().Unmap() == a.WithZone("") {
				return i.HardwareAddr
			}
		}
	}
	return nil
}
