package ib

import "math/bits"

// The ICRC covers the IPv4 identification, which a UDP socket does not show to the receiver, and
// which senders count up or choose freely (rxe: a hashed counter that cannot be predicted). But a
// CRC is linear: the received ICRC xor the ICRC computed for a guessed identification is a linear
// image of the error in the guess. The image is one to one, so it can be inverted: divide the
// difference by x^8 for each byte behind the identification, and the result is the bytes of the IP
// header from there on, as a difference to the assumed ones.
//
// Those are four bytes, the identification and the flags, and every difference comes from exactly
// one value of the four. A good packet leaves the flags as assumed; a packet with random errors
// does so with probability 2^-16. Single bit errors and bursts of up to 3 bits are always found,
// bursts of 4 to 8 bits except for 47 of 4 million (TestSolveAcceptance counts them all). A link
// can do better by requiring that identifications of one sender advance.

// identTail is the number of bytes from the IPv4 identification to the end of the UDP header.
const identTail = IPv4HeaderBytes + UDPHeaderBytes - 4

// crcUnshift[k] is x^-8k modulo the polynomial: a factor that undoes k bytes.
var crcUnshift = func() (t [identTail + MaxPacketBytes + 1]uint32) {
	t[0] = 1 << 31
	for k := 1; k < len(t); k++ {
		t[k] = crcUnshift8(t[k-1])
	}
	return t
}()

// SolveIPv4 returns the changes to the IPv4 identification, and to the 16 bits of flags and
// fragment offset that follow it, that explain the difference diff (an xor) between the received
// ICRC and one computed over the same bytes. n is the number of bytes from the BTH up to, but
// without, the ICRC. Xor both results with the assumed values. There always is exactly one
// solution; it is credible if flags is 0, or 0x4000 (the bit DF) if a sender may differ from the
// assumption.
func SolveIPv4(diff uint32, n int) (id, flags uint16) {
	n += identTail
	for n >= len(crcUnshift) { // longer than any RoCE packet
		diff = crcMul(diff, crcUnshift[len(crcUnshift)-1])
		n -= len(crcUnshift) - 1
	}
	if n < 0 {
		return 0, 0xFFFF
	}
	w := crcMul(diff, crcUnshift[n])
	return bits.ReverseBytes16(uint16(w)), bits.ReverseBytes16(uint16(w >> 16))
}

// Match is the result of checking an ICRC.
type Match uint8

// The results of [ICRC.Verify].
const (
	Mismatch    Match = iota // the packet is corrupt
	MatchExact               // right with the given identification: a 32-bit check
	MatchSolved              // right with another identification: a 16-bit check
)

// Verify checks the ICRC at the end of b, a whole UDP payload of at least a BTH and an ICRC
// (anything that [Packet.Decode] accepts), when the IPv4 identification is not known for certain.
// It tries guess first, which costs nothing extra, and then solves for the identification. It
// returns the identification found; the next guess should be that plus 1, or 0 for the first
// segment of a sender that segments (UDP_SEGMENT counts from 0).
//
// IPv6 has no identification: the result is MatchExact or Mismatch. If the identification is known,
// compare [ICRC.Checksum] with [TrailingICRC].
func (c *ICRC) Verify(guess uint16, b []byte) (id uint16, m Match) {
	if len(b) < BTHBytes+ICRCBytes {
		return guess, Mismatch
	}
	body := b[:len(b)-ICRCBytes]
	return c.match(guess, c.Checksum(guess, body)^TrailingICRC(b), len(body))
}

// VerifyFlushRxe is [ICRC.Verify] for a FLUSH with the deviating ICRC of
// rdma_rxe, see [ICRC.ChecksumFlushRxe].
func (c *ICRC) VerifyFlushRxe(guess uint16, b []byte) (id uint16, m Match) {
	if len(b) < BTHBytes+ICRCBytes {
		return guess, Mismatch
	}
	body := b[:len(b)-ICRCBytes]
	covered := min(len(body), int(RCFlush.Info().HeaderLen)) + len(body)
	return c.match(guess, c.ChecksumFlushRxe(guess, body)^TrailingICRC(b), covered)
}

// match judges the difference between two ICRCs that cover n bytes from the BTH on.
func (c *ICRC) match(guess uint16, diff uint32, n int) (uint16, Match) {
	if diff == 0 {
		return guess, MatchExact
	}
	if c.ip6 {
		return guess, Mismatch
	}
	id, flags := SolveIPv4(diff, n)
	if flags != 0 {
		return guess, Mismatch
	}
	return guess ^ id, MatchSolved
}
