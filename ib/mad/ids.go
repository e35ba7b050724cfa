package mad

import "fmt"

// CommID names a connection at the end that chose it.
type CommID uint32

// GUID identifies a channel adapter.
type GUID uint64

// PortSpace is the upper part of a service ID of RDMA-CM (annex A11).
type PortSpace uint16

// The port spaces of librdmacm.
const (
	PortSpaceIPoIB PortSpace = 0x0002
	PortSpaceTCP   PortSpace = 0x0106
	PortSpaceUDP   PortSpace = 0x0111
	PortSpaceIB    PortSpace = 0x013F
)

func (p PortSpace) String() string {
	switch p {
	case PortSpaceIPoIB:
		return "IPoIB"
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	}
	return fmt.Sprintf("PortSpace(0x%04x)", uint16(p))
}

// ServiceID identifies a service that a listener offers.
type ServiceID uint64

// NewServiceID returns the service ID of a port of RDMA-CM.
func NewServiceID(p PortSpace, port uint16) ServiceID {
	return ServiceID(p)<<16 | ServiceID(port)
}

// Split returns port space and port, and whether the service ID has the form of RDMA-CM's.
func (s ServiceID) Split() (p PortSpace, port uint16, ok bool) {
	return PortSpace(s >> 16), uint16(s), s>>32 == 0
}

func (s ServiceID) String() string {
	if p, port, ok := s.Split(); ok {
		switch p {
		case PortSpaceIPoIB, PortSpaceTCP, PortSpaceUDP, PortSpaceIB:
			return fmt.Sprintf("%v/%d", p, port)
		}
	}
	return fmt.Sprintf("0x%016x", uint64(s))
}
