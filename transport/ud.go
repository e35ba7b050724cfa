package transport

import "github.com/goroce/goroce/ib"

// handleUD handles one datagram with the right Q_Key. It drops bad datagrams and the QP continues;
// only receive requests with bad buffers and a full CQ end it. A datagram too long for the next
// receive request is dropped and the request kept (IBTA 9.9.3, class D). So a request with less
// room than the GRH area blocks the queue, as it does on rxe.
func (qp *QP) handleUD(now int64, p *ib.Packet, rx *RxPacket) {
	r := &qp.resp
	info := p.Opcode.Info()
	n := len(p.Payload)
	if !info.Payload.Admits(n, qp.e.cfg.MTU.Bytes()) || int(p.Pad) != ib.PadFor(n) {
		qp.e.counters.DropMalformed++
		r.drop(now, p, "length")
		return
	}
	v := r.takeBuffers(ib.GRHBytes + n)
	if v == pass {
		v = r.doDatagram(p, info, rx)
	}
	if v != pass {
		r.refuseUnreliable(now, p, v)
	}
}

// doDatagram places a datagram behind its GRH area and completes the receive request.
func (r *responder) doDatagram(p *ib.Packet, info *ib.OpcodeInfo, rx *RxPacket) verdict {
	m := &r.msg
	if m.cur.Left() < uint64(ib.GRHBytes+len(p.Payload)) {
		return badLength // before the GRH area is touched
	}
	// The IP header as far as the link shows it: without flow label and identification.
	var grh [ib.GRHBytes]byte
	h := ib.GRH{
		Src: rx.Src, Dst: rx.Dst, TrafficClass: rx.TrafficClass, HopLimit: rx.HopLimit,
		PayloadBytes: ib.UDPHeaderBytes + len(rx.Data),
	}
	h.Put(&grh)
	m.cur.CopyIn(grh[:])
	m.cur.CopyIn(p.Payload)
	r.sl = SLRoCEv2IPv6
	if rx.Src.Unmap().Is4() {
		r.sl = SLRoCEv2IPv4
	}
	if !r.complete(p, info, WCRecv, uint32(ib.GRHBytes+len(p.Payload))) {
		return badQueue
	}
	return pass
}
