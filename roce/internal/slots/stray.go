package slots

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/edge"
)

// A message in an inbox is a sequence of packets, each with a header: length of the packet and
// source port, two bytes each; traffic class and hop limit, one byte each; two zero bytes; source
// and destination, 16 bytes each. The ICRC has been checked already; only the first receiver sees
// all that the check needs.
const (
	strayHeader = 40
	// MaxStrays is the length of the longest message, in bytes.
	MaxStrays = 60 << 10
)

// outbox gathers packets for one slot.
type outbox struct {
	buf     []byte
	i, slot int
	packets int
}

// HandOn passes a packet on to another slot at address i. It copies the packet; Flush sends it, or
// the next call for another slot. It returns how many packets were lost, because their inbox is
// full or because messages to queue pair 1 exceed a rate, and whether a device has the slot. If
// not, the packet is for no device.
func (l *Lease) HandOn(i, slot int, p *edge.RxPacket) (lost int, ok bool) {
	o := &l.out
	size := strayHeader + len(p.Data)
	if o.packets > 0 && (o.i != i || o.slot != slot || len(o.buf)+size > MaxStrays) {
		lost = l.Flush()
	}
	if slot < 0 || slot >= Count || len(p.Data) > ib.MaxPacketBytes || o.packets == 0 && !l.Held(i, slot) {
		return lost, false
	}
	if toGSI(p.Data) && !l.may.take(l.now()) {
		return lost + 1, true
	}
	o.i, o.slot = i, slot
	o.packets++
	var h [strayHeader]byte
	binary.BigEndian.PutUint16(h[0:], uint16(len(p.Data)))
	binary.BigEndian.PutUint16(h[2:], p.SrcPort)
	h[4], h[5] = p.TrafficClass, p.HopLimit
	src, dst := p.Src.As16(), p.Dst.As16()
	copy(h[8:], src[:])
	copy(h[24:], dst[:])
	o.buf = append(append(o.buf, h[:]...), p.Data...)
	return lost, true
}

// Flush sends what HandOn has gathered.
func (l *Lease) Flush() (lost int) {
	o := &l.out
	if o.packets == 0 {
		return 0
	}
	if !l.sets[o.i].handOn(o.slot, o.buf) {
		lost = o.packets
	}
	o.buf, o.packets = o.buf[:0], 0
	return lost
}

// Strays iterates over the packets of a message.
type Strays struct{ rest []byte }

// ParseStrays returns the packets of a message.
func ParseStrays(b []byte) Strays { return Strays{b} }

// Next fills in the next packet, which refers to the message. It returns false at the end, and at
// bytes that are no packet.
func (s *Strays) Next(p *edge.RxPacket) bool {
	b := s.rest
	s.rest = nil
	if len(b) < strayHeader {
		return false
	}
	n := int(binary.BigEndian.Uint16(b))
	if n < ib.BTHBytes+ib.ICRCBytes || n > ib.MaxPacketBytes || len(b) < strayHeader+n {
		return false
	}
	*p = edge.RxPacket{
		Data: b[strayHeader : strayHeader+n : strayHeader+n], SrcPort: binary.BigEndian.Uint16(b[2:]),
		TrafficClass: b[4], HopLimit: b[5],
		Src: netip.AddrFrom16([16]byte(b[8:])).Unmap(), Dst: netip.AddrFrom16([16]byte(b[24:])).Unmap(),
	}
	s.rest = b[strayHeader+n:]
	return true
}

// Pending reports whether there may be more packets.
func (s *Strays) Pending() bool { return len(s.rest) > 0 }
