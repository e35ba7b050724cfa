package transport

// Selective repeat between two ends that know it (docs/loss.md). Both elements are where the specification has nothing:
// receivers ignore them.

// keepsAheadBit is the bit of BTH.Resv7 by which an end says that it knows selective repeat: a requester in what it sends
// again, a responder in everything that it sends to a requester that has said so. With any other bit of these seven it says nothing.
const keepsAheadBit = 0x40

// keptMap is the payload of a sequence NAK, between two that know it: a bit for each PSN behind the one that the NAK names,
// set if the responder has that packet. The first PSN is the top bit of the first byte. Its length is a multiple of 4.
type keptMap []byte

// bits returns for how many PSNs there are bits.
func (m keptMap) bits() int { return 8 * len(m) }

// has reports whether the PSN that is i+1 behind the one of the NAK is there.
func (m keptMap) has(i int) bool { return m[i/8]&(0x80>>(i%8)) != 0 }

// set says that it is.
func (m keptMap) set(i int) { m[i/8] |= 0x80 >> (i % 8) }
