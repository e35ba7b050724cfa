package verbs

import (
	"encoding/binary"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
)

// nodeGUID returns the GUID of a device on an address: the same each time it is
// opened, so that what people note of it stays true. It is that of the network
// interface, as rdma_rxe has it; without one (loopback, tunnels, a simulated link)
// it is made from the address.
func nodeGUID(a netip.Addr, mac net.HardwareAddr) uint64 {
	if len(mac) == 6 && slices.Max(mac) != 0 {
		// EUI-64 of an EUI-48, with the universal/local bit turned (RFC 4291, appendix A).
		return binary.BigEndian.Uint64([]byte{mac[0] ^ 2, mac[1], mac[2], 0xFF, 0xFE, mac[3], mac[4], mac[5]})
	}
	h := fnv.New64a()
	_, _ = h.Write(a.AsSlice())
	const group, local = 1 << 56, 2 << 56
	return h.Sum64()&^group | local
}

// hardwareAddr returns that of the interface which has the address, nil if there
// is none.
func hardwareAddr(a netip.Addr) net.HardwareAddr {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, n := range addrs {
			if p, err := netip.ParsePrefix(n.String()); err == nil && p.Addr().Unmap() == a.WithZone("") {
				return i.HardwareAddr
			}
		}
	}
	return nil
}
