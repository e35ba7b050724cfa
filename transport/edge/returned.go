package edge

import "net/netip"

// Returned is a datagram to queue pair 1 of a peer that an ICMP message has brought back.
type Returned struct {
	From   netip.Addr // its destination
	NoHost bool       // no way leads to the host; else no socket has the port there
	Quote  []byte     // its beginning, from the BTH on
}
