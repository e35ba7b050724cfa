package transport

// keptMap is the payload of a sequence NAK between two sides that know selective repeat
// (docs/loss.md). It has a bit for each PSN behind the one that the NAK names, set if the responder
// has that packet. The first PSN is the top bit of the first byte. The length is a multiple of 4.
type keptMap []byte

// bits returns the number of PSNs in the map.
func (m keptMap) bits() int { return 8 * len(m) }

// has reports whether the responder has the PSN that is i+1 behind the NAK's.
func (m keptMap) has(i int) bool { return m[i/8]&(0x80>>(i%8)) != 0 }

// set marks that PSN as present.
func (m keptMap) set(i int) { m[i/8] |= 0x80 >> (i % 8) }
