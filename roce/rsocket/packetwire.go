package rsocket

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// The wire format of datagram sockets is librdmacm's. A datagram travels in a SEND of a UD queue
// pair, behind a header that names the sender:
//
//	0 version, 4 or 6   1 length of this header   2 port   4 IPv4 address, or flow label and IPv6 address
//
// If the sender does not know the peer's queue pair, it sends the datagram to the peer's UDP port,
// behind a header that names its own queue pair. The answer is such a header, with opCtrl and no
// data:
//
//	0 0x55555555   4 version, 4 or 6   5 operation   6 length of this header   7 0   8 QPN   12 IPv4 or IPv6 address
//
// All numbers are big-endian.

const (
	datagramHeader4, datagramHeader6 = 8, 24
	serviceHeader4, serviceHeader6   = 16, 28

	serviceTag = 0x55555555
	qpnMask    = 1<<24 - 1

	// slotBytes is librdmacm's room for a datagram with its header, and for a message to the UDP
	// port.
	slotBytes = 2048
)

// maxDatagram returns the most bytes of a datagram to an address: librdmacm has no room for more,
// either way.
func maxDatagram(to netip.Addr) int {
	if to.Is4() {
		return slotBytes - serviceHeader4
	}
	return slotBytes - serviceHeader6
}

// appendDatagramHeader appends the header of a datagram sent by the queue pair.
func appendDatagramHeader(b []byte, from netip.AddrPort) []byte {
	if a := from.Addr(); a.Is4() {
		b = binary.BigEndian.AppendUint16(append(b, 4, datagramHeader4), from.Port())
		return append(b, a.AsSlice()...)
	}
	b = binary.BigEndian.AppendUint16(append(b, 6, datagramHeader6), from.Port())
	a := from.Addr().As16()
	return append(append(b, 0, 0, 0, 0), a[:]...)
}

// parseDatagram splits a datagram received by the queue pair; ok is false if it is malformed.
func parseDatagram(b []byte) (from netip.AddrPort, data []byte, ok bool) {
	switch {
	case len(b) >= datagramHeader4 && b[0] == 4 && b[1] == datagramHeader4:
		a := netip.AddrFrom4([4]byte(b[4:]))
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[2:])), b[datagramHeader4:], true
	case len(b) >= datagramHeader6 && b[0] == 6 && b[1] == datagramHeader6:
		// A program on an IPv6 socket that speaks IPv4 has a mapped address.
		a := netip.AddrFrom16([16]byte(b[8:])).Unmap()
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[2:])), b[datagramHeader6:], true
	}
	return netip.AddrPort{}, nil, false
}

// serviceMessage is a message to a UDP port.
type serviceMessage struct {
	op   op // opData or opCtrl
	qpn  ib.QPN
	addr netip.Addr // of the sender's queue pair
	data []byte
}

func (m *serviceMessage) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, serviceTag)
	version, length := byte(6), byte(serviceHeader6)
	if m.addr.Is4() {
		version, length = 4, serviceHeader4
	}
	b = append(b, version, byte(m.op), length, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(m.qpn))
	return append(append(b, m.addr.AsSlice()...), m.data...)
}

// parseService decodes a message to the UDP port, which anyone may send; ok is false if it is
// malformed.
func parseService(b []byte) (m serviceMessage, ok bool) {
	if len(b) < serviceHeader4 || len(b) > slotBytes || binary.BigEndian.Uint32(b) != serviceTag {
		return m, false
	}
	m.op = op(b[5])
	m.qpn = ib.QPN(binary.BigEndian.Uint32(b[8:]) & qpnMask)
	switch {
	case b[4] == 4 && b[6] == serviceHeader4:
		m.addr, m.data = netip.AddrFrom4([4]byte(b[12:])), b[serviceHeader4:]
	case b[4] == 6 && b[6] == serviceHeader6 && len(b) >= serviceHeader6:
		m.addr, m.data = netip.AddrFrom16([16]byte(b[12:])).Unmap(), b[serviceHeader6:]
	default:
		return m, false
	}
	// Queue pairs 0 and 1 belong to managers, and the last number means all members of a group: a
	// message must not direct the application's data to them.
	return m, (m.op == opData || m.op == opCtrl) && m.qpn > 1 && m.qpn != ib.QPNMulticast
}
