package trace

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
)

// Headers makes IP and UDP headers of packets for a capture. Links do not hand up the IPv4
// identification, so it is found by the ICRC. The zero value is ready to use.
type Headers struct {
	flows map[link.Source]*ib.ICRC
}

// maxFlows bounds the ICRC states kept; beyond it they are made anew.
const maxFlows = 4096

// ICRC returns the ICRC state of a flow to port 4791.
func (h *Headers) ICRC(s link.Source) *ib.ICRC {
	if c := h.flows[s]; c != nil {
		return c
	}
	if h.flows == nil || len(h.flows) >= maxFlows {
		h.flows = make(map[link.Source]*ib.ICRC)
	}
	c := ib.NewICRC(ib.Flow{Src: s.Src, Dst: s.Dst, SrcPort: s.SrcPort, DstPort: ib.UDPPort})
	h.flows[s] = &c
	return &c
}

// Identification returns the IPv4 identification that fits the ICRC of a packet, BTH through ICRC;
// 0 if none does.
func (h *Headers) Identification(s link.Source, packet []byte) uint16 {
	c := h.ICRC(s)
	id, m := c.Verify(0, packet)
	if m == ib.Mismatch && len(packet) > 0 && ib.Opcode(packet[0]) == ib.RCFlush {
		id, _ = c.VerifyFlushRxe(0, packet)
	}
	return id // the guess, if none fits
}

// AppendHeaders appends the IP and UDP headers of a packet to port 4791, BTH through ICRC. Over
// IPv4 the UDP checksum stays 0, as rxe sends it; over IPv6 it is set, because tools complain about
// 0 there.
func AppendHeaders(b []byte, s link.Source, tclass, hops uint8, id uint16, packet []byte) []byte {
	be := binary.BigEndian
	length := ib.UDPHeaderBytes + len(packet)
	start := len(b)
	if s.Src.Is4() {
		src, dst := s.Src.As4(), s.Dst.As4()
		b = append(b, 0x45, tclass)
		b = be.AppendUint16(b, uint16(ib.IPv4HeaderBytes+length))
		b = be.AppendUint16(b, id)
		b = append(b, 0x40, 0, hops, 17, 0, 0) // DF
		b = append(append(b, src[:]...), dst[:]...)
		be.PutUint16(b[start+10:], ^ib.InternetSum(0, b[start:]))
	} else {
		src, dst := s.Src.As16(), s.Dst.As16()
		b = append(b, 0x60|tclass>>4, tclass<<4, 0, 0)
		b = be.AppendUint16(b, uint16(length))
		b = append(b, 17, hops)
		b = append(append(b, src[:]...), dst[:]...)
	}
	udp := len(b)
	b = be.AppendUint16(b, s.SrcPort)
	b = be.AppendUint16(b, ib.UDPPort)
	b = be.AppendUint16(b, uint16(length))
	b = append(b, 0, 0)
	if s.Src.Is6() {
		// The pseudo header is the addresses, which precede it, length and protocol.
		sum := ^ib.InternetSum(uint32(length)+17, b[start+8:], packet)
		if sum == 0 {
			sum = 0xFFFF // 0 is "none"
		}
		be.PutUint16(b[udp+6:], sum)
	}
	return b
}
