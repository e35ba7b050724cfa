package transport

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
)

// GRHBytes is the length of the area in front of a datagram in the receive
// buffer: an IPv6 header, or 20 zero bytes and an IPv4 header (annex A17).
const GRHBytes = 40

// handleUD takes one datagram whose Q_Key is right. Whatever is wrong with it, it is dropped and the
// QP goes on; only receive requests with bad buffers and a full CQ end it.
func (qp *QP) handleUD(now int64, p *ib.Packet, rx *RxPacket) {
	r := &qp.resp
	info := p.Opcode.Info()
	n := len(p.Payload)
	if !info.Payload.Admits(n, qp.e.cfg.MTU.Bytes()) || int(p.Pad) != ib.PadFor(n) {
		qp.e.counters.DropMalformed++
		r.drop(now, p, "length")
		return
	}
	v := r.takeBuffers()
	if v == pass {
		v = r.doDatagram(p, info, rx)
	}
	if v != pass {
		r.refuseUnreliable(now, p, v)
	}
}

// doDatagram places a datagram behind its GRH area and completes it.
func (r *responder) doDatagram(p *ib.Packet, info *ib.OpcodeInfo, rx *RxPacket) verdict {
	m := &r.msg
	if m.cur.Left() < uint64(GRHBytes+len(p.Payload)) {
		return badLength // before the GRH area is touched
	}
	var grh [GRHBytes]byte
	putGRH(&grh, rx)
	m.cur.CopyIn(grh[:])
	m.cur.CopyIn(p.Payload)
	if !r.complete(p, info, WCRecv, uint32(GRHBytes+len(p.Payload))) {
		return badQueue
	}
	return pass
}

// putGRH writes the IP header of a received packet as the application sees it.
// A link need not know all of it: the flow label, the IPv4 identification and
// options are given as 0, and DF is set as RoCE v2 requires.
func putGRH(b *[GRHBytes]byte, rx *RxPacket) {
	const udp = 17
	be := binary.BigEndian
	n := ib.UDPHeaderBytes + len(rx.Data)
	if rx.Src.Is4() || rx.Src.Is4In6() {
		src, dst := rx.Src.As4(), rx.Dst.As4()
		h := b[GRHBytes-ib.IPv4HeaderBytes:]
		h[0] = 0x45
		h[1] = rx.TrafficClass
		be.PutUint16(h[2:], uint16(ib.IPv4HeaderBytes+n))
		be.PutUint16(h[6:], 0x4000) // DF
		h[8] = rx.HopLimit
		h[9] = udp
		copy(h[12:], src[:])
		copy(h[16:], dst[:])
		be.PutUint16(h[10:], ipv4Checksum(h))
		return
	}
	src, dst := rx.Src.As16(), rx.Dst.As16()
	be.PutUint32(b[:], 6<<28|uint32(rx.TrafficClass)<<20)
	be.PutUint16(b[4:], uint16(n))
	b[6] = udp
	b[7] = rx.HopLimit
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
}

// ipv4Checksum returns the checksum of a 20-byte IPv4 header whose checksum
// field is 0 (RFC 791).
func ipv4Checksum(h []byte) uint16 {
	var sum uint32
	for i := 0; i < ib.IPv4HeaderBytes; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	sum = sum>>16 + sum&0xFFFF
	return ^uint16(sum>>16 + sum)
}
