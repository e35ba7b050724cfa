package mad

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// NobodysQPN is the queue pair number in a DREQ that ends nothing: it asks whether the receiver
// knows the connection of the communication IDs. A CM that knows it drops the DREQ, since the
// number does not fit (IBTA 12.9.8.3; Linux and this stack). A CM that does not know it answers
// with a DREP, as to any DREQ.
const NobodysQPN = ib.QPNMulticast

// Asks reports whether b, the payload of a UD packet, is such a DREQ.
func Asks(b []byte) bool {
	const qpnAt = HeaderBytes + 8
	return len(b) >= qpnAt+4 && Class(b[1]) == ClassCM && Attribute(binary.BigEndian.Uint16(b[16:])) == AttrDREQ &&
		ib.QPN(binary.BigEndian.Uint32(b[qpnAt:])>>8) == NobodysQPN
}
