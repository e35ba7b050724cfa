package mad

import "encoding/binary"

// The classes of subnet management, which QP 0 carries and QP 1 does not.
const (
	classSubnLID      Class = 0x01
	classSubnDirected Class = 0x81
)

// Unserved makes the answer to a datagram that came to QP 1 and that no part of the node serves: a
// Get or a Set comes back as GetResp with StatusBadMethodAttr. It returns false if there is no
// answer. Like Linux, whose rdma_rxe serves only communication management on QP 1 (ib_mad; seen on
// 6.1 and 6.12), it answers in any class and version, except subnet management, and communication
// management other than its ClassPortInfo.
func Unserved(b []byte, answer *[Bytes]byte) bool {
	var h Header
	if _, err := Parse(b, &h); err != OK {
		return false
	}
	switch {
	case h.Method != MethodGet && h.Method != MethodSet,
		h.Class == classSubnLID, h.Class == classSubnDirected,
		h.Class == ClassCM && h.Attribute != AttrClassPortInfo:
		return false
	}
	copy(answer[:], b)
	answer[3] = byte(MethodGetResp)
	binary.BigEndian.PutUint16(answer[4:], uint16(StatusBadMethodAttr))
	return true
}
