package link

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/edge"
)

// FlowICRC returns the ICRC state of a path whose packets leave from srcPort.
func FlowICRC(p *edge.Path, srcPort, dstPort uint16) ib.ICRC {
	return ib.NewICRC(ib.Flow{Src: p.Src, Dst: p.Dst, SrcPort: srcPort, DstPort: dstPort})
}

// PacketICRC computes the ICRC of a packet to send with the IPv4
// identification id (ignored for IPv6).
func PacketICRC(c *ib.ICRC, tx *edge.TxPacket, id uint16) uint32 {
	crc := c.Head(tx.UDPPayloadLen(), id, tx.Headers())
	for _, f := range tx.Frags[:tx.NumFrags] {
		crc = ib.Extend(crc, f)
	}
	if tx.Pad != 0 {
		crc = ib.Extend(crc, zeroPad[:tx.Pad])
	}
	return crc ^ tx.ICRCXor
}

var zeroPad [3]byte

// AppendPacket appends the UDP payload of tx, with its ICRC, to b.
func AppendPacket(b []byte, c *ib.ICRC, tx *edge.TxPacket, id uint16) []byte {
	start := len(b)
	b = tx.AppendTo(b)
	crc := c.Checksum(id, b[start:]) ^ tx.ICRCXor
	b = append(b, 0, 0, 0, 0)
	ib.PutICRC(b[len(b)-ib.ICRCBytes:], crc)
	return b
}

// Verdict is the outcome of the check of a received packet.
type Verdict uint8

// The verdicts.
const (
	VerdictOK     Verdict = iota
	VerdictSolved         // right for an unexpected identification
	VerdictBad            // ICRC wrong
	VerdictShort          // no room for a BTH and an ICRC
)

// Source identifies a flow of received packets.
type Source struct {
	Src, Dst netip.Addr
	SrcPort  uint16
	NoDF     bool // IPv4 without the flag DF, which the ICRC covers
}

// verifierSlots is the number of flows whose state a Verifier keeps: a direct-mapped cache, power
// of two. An evicted flow costs one preparation of a pseudo header (about 100 ns).
const verifierSlots = 64

// Verifier checks the ICRC of received packets. It caches the state of recent flows. It belongs to
// one receiving side.
type Verifier struct {
	dstPort uint16
	slots   [verifierSlots]verifierSlot
}

type verifierSlot struct {
	src  Source
	used bool
	icrc ib.ICRC
	// ident is the identification of the previous packet; counts says that the first packet of the
	// last datagram had one other than 0.
	ident  uint16
	counts bool
}

// NewVerifier returns a Verifier of packets to dstPort.
func NewVerifier(dstPort uint16) *Verifier { return &Verifier{dstPort: dstPort} }

// Flow is a flow known to a Verifier; it is valid until the next call of [Verifier.Flow].
type Flow struct{ s *verifierSlot }

// Flow looks up or prepares the flow of s.
func (v *Verifier) Flow(s *Source) Flow {
	a := s.Src.As16()
	h := uint32(a[15]) ^ uint32(a[14])<<3 ^ uint32(s.SrcPort)
	slot := &v.slots[h%verifierSlots]
	if !slot.used || slot.src != *s {
		*slot = verifierSlot{
			src: *s, used: true,
			icrc: ib.NewICRC(ib.Flow{Src: s.Src, Dst: s.Dst, SrcPort: s.SrcPort, DstPort: v.dstPort}),
		}
		if s.NoDF {
			slot.icrc = slot.icrc.WithoutDF()
		}
	}
	return Flow{slot}
}

// Rest is the state of a flow for checking the packets of a datagram after its first. It remains
// valid while other flows are looked up and packets of other datagrams are checked.
type Rest struct{ s verifierSlot }

// Rest returns the rest of a datagram whose first packet was just checked; n packets follow it. The
// next datagram is expected to continue with the identifications after theirs.
func (f Flow) Rest(n int) (r Rest) {
	r.s = *f.s
	f.s.ident += uint16(n)
	return r
}

// Flow returns the flow for the packets of the rest.
func (r *Rest) Flow() Flow { return Flow{&r.s} }

// CheckKnown verifies a UDP payload (BTH through ICRC) with a known IPv4 identification, with all
// 32 bits.
func (f Flow) CheckKnown(b []byte, id uint16) Verdict {
	if len(b) < ib.BTHBytes+ib.ICRCBytes {
		return VerdictShort
	}
	c, body := &f.s.icrc, b[:len(b)-ib.ICRCBytes]
	want := ib.TrailingICRC(b)
	if c.Checksum(id, body) != want &&
		(ib.Opcode(b[0]) != ib.RCFlush || c.ChecksumFlushRxe(id, body) != want) {
		return VerdictBad
	}
	return VerdictOK
}

// CheckSegment verifies packet i, from 0, of a datagram that was received as a run of packets under
// one IP header with the identification first. Calls for a datagram are in order; those for all but
// the first packet go to its [Rest]. Segmentation numbers packets up from the first. Receive
// coalescing may have joined packets with the same identification, or trains that each begin at 0.
// Anything else is wrong, so the check has a strength of at least 30 bits.
func (f Flow) CheckSegment(b []byte, first uint16, i int) Verdict {
	s := f.s
	if i == 0 {
		s.ident = first
		return f.CheckKnown(b, first)
	}
	if len(b) < ib.BTHBytes+ib.ICRCBytes {
		return VerdictShort
	}
	next := s.ident + 1
	id, m := s.icrc.Verify(next, b)
	if m == ib.Mismatch && ib.Opcode(b[0]) == ib.RCFlush {
		id, m = s.icrc.VerifyFlushRxe(next, b)
	}
	switch {
	case m == ib.Mismatch || m == ib.MatchSolved && id != first && id != first+uint16(i) && id != 0:
		s.ident = next
		return VerdictBad
	default:
		s.ident = id
		return VerdictOK
	}
}

// Check verifies a UDP payload with an unknown IPv4 identification. segment is the index of the
// packet in the datagram that the socket returned, because a sender with segmentation offload
// numbers packets like that. For IPv6 the check is exact; for IPv4 the verdict VerdictSolved means
// a check of 16 bits. It also accepts FLUSH with rdma_rxe's ICRC.
func (f Flow) Check(b []byte, segment int) Verdict {
	if len(b) < ib.BTHBytes+ib.ICRCBytes {
		return VerdictShort
	}
	s := f.s
	id, m := s.icrc.Verify(s.guess(segment), b)
	if m == ib.Mismatch && ib.Opcode(b[0]) == ib.RCFlush {
		id, m = s.icrc.VerifyFlushRxe(s.guess(segment), b)
	}
	if m == ib.Mismatch {
		return VerdictBad
	}
	// Another plausible identification is as good as the guess.
	expected := m == ib.MatchExact || id == 0 || id == s.ident+1 || int(id) == segment
	if segment == 0 {
		s.counts = id != 0
	}
	s.ident = id
	if expected {
		return VerdictOK
	}
	return VerdictSolved
}

// guess returns the most likely identification of a packet. A sender on a UDP socket numbers the
// segments of a datagram from 0; a sender with a running counter, such as rxe, continues after the
// last number.
func (s *verifierSlot) guess(segment int) uint16 {
	if segment > 0 || s.counts {
		return s.ident + 1
	}
	return 0
}
