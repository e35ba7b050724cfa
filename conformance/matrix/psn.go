package matrix

// What rows and the search for starved guests know of packets, beyond what package wire
// decodes.
const (
	synKind = 0xe0 // the upper three bits of a syndrome say what it is
	synAck  = 0x00
	psnHalf = 1 << 23
	badSum  = "corrupt"
)

// psnDiff is a-b in 24-bit arithmetic.
func psnDiff(a, b uint32) int {
	d := int((a - b) & psnMask)
	if d >= psnHalf {
		d -= 1 << 24
	}
	return d
}
