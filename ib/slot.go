package ib

// Slot is a part of the queue pair numbers of an address: those with a certain value in the top
// bits. Several engines share an address by having a slot each; communication IDs are divided in
// the same way. The zero value is the slot of an engine without others, and holds all numbers.
type Slot struct {
	Index uint8 // value of the top bits
	Bits  uint8 // how many bits, 0 to 8
}

// qpnBits is the length of a queue pair number.
const qpnBits = 24

// QPN returns a queue pair number of the slot with the low bits of random.
func (s Slot) QPN(random uint32) QPN {
	return QPN(s.Index)<<(qpnBits-s.Bits) | QPN(random)&(QPNMask>>s.Bits)
}

// Has reports whether the slot holds a queue pair number. Every slot holds those of management, 0
// and 1, and of multicast.
func (s Slot) Has(n QPN) bool {
	return n <= QPNGSI || n == QPNMulticast || n>>(qpnBits-s.Bits) == QPN(s.Index)
}

// CommID returns a communication ID of the slot with the low bits of random.
func (s Slot) CommID(random uint32) uint32 {
	return uint32(s.Index)<<(32-s.Bits) | random&(^uint32(0)>>s.Bits)
}

// HasCommID reports whether the slot holds a communication ID.
func (s Slot) HasCommID(id uint32) bool { return uint64(id)>>(32-s.Bits) == uint64(s.Index) }
