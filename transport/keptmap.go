package transport

// keptMap is the payload of a sequence NAK, between two that know selective repeat (docs/loss.md):
// a bit for each PSN behind the one that the NAK names, set if the responder has that packet. The
// first PSN is the top bit of the first byte. Its length is a multiple of 4.
type keptMap []byte

// bits returns for how many PSNs there are bits.
func (m keptMap) bits() int { return 8 * len(m) }

// has reports whether the PSN that is i+1 behind the one of the NAK is there.
func (m keptMap) has(i int) bool { return m[i/8]&(0x80>>(i%8)) != 0 }

// set says that it is.
func (m keptMap) set(i int) { m[i/8] |= 0x80 >> (i % 8) }
