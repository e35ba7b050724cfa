package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// takeRecv makes sure that a receive request is held. It returns false if none is posted.
func (r *responder) takeRecv() bool {
	if r.msg.recv == nil {
		r.msg.recv = r.qp.takeRecv()
	}
	return r.msg.recv != nil
}

// takeBuffers takes the receive request of a SEND whose first packet places n bytes, and checks its
// buffers. A message of no bytes touches none, so that their keys do not count: rxe and cards
// complete it, and libfabric's fi_shared_ctx receives it with key 0. On the unreliable transports
// it may reuse the request of a broken message.
func (r *responder) takeBuffers(n int) verdict {
	if !r.takeRecv() {
		return notReady
	}
	if n == 0 {
		r.msg.sgl.Reset()
		r.msg.cur = mem.Cursor{}
		return pass
	}
	qp := r.qp
	pd := qp.pd
	if qp.srq != nil {
		pd = qp.srq.pd
	}
	m := &r.msg
	if f := qp.e.cfg.Mem.Resolve(pd, m.recv.sges, mem.LocalWrite, &m.sgl); f != mem.FaultNone {
		r.wc.VendorErr = uint32(f)
		return badBuffer
	}
	m.cur = m.sgl.Cursor()
	return pass
}

// doSend places one packet of a SEND, and completes the message with the last one.
func (r *responder) doSend(p *ib.Packet, info *ib.OpcodeInfo) verdict {
	m := &r.msg
	if v := m.place(p.Payload); v != pass {
		if v == badBuffer {
			r.wc.VendorErr = uint32(mem.FaultState)
		}
		return v
	}
	if info.Pos&ib.Last != 0 {
		if info.Headers&ib.HasIETH != 0 {
			// IBTA 9.4.1.1.3: invalidate the key before the completion reports it.
			qp := r.qp
			if f := qp.e.cfg.Mem.Invalidate(qp.pd, qp.num, p.IETH, true); f != mem.FaultNone {
				r.wc.VendorErr = uint32(f)
				return badAccess
			}
		}
		if !r.complete(p, info, WCRecv, m.done) {
			return badQueue
		}
	} else {
		m.op = ib.OpSend
	}
	return pass
}

// place copies payload to the current position of the receive buffers.
func (m *message) place(payload []byte) verdict {
	if n := uint64(len(payload)); n > m.cur.Left() || n+uint64(m.done) > MaxMessage {
		return badLength
	}
	if !m.sgl.Valid() {
		return badBuffer
	}
	m.cur.CopyIn(payload)
	m.done += uint32(len(payload))
	return pass
}

// doWrite places one packet of a WRITE.
func (r *responder) doWrite(p *ib.Packet, info *ib.OpcodeInfo) verdict {
	m := &r.msg
	if v := r.placeWrite(p, info); v != pass {
		return v
	}
	if info.Pos&ib.Last == 0 {
		m.op = ib.OpWrite
	} else {
		if info.Headers&ib.HasImmDt != 0 && !r.complete(p, info, WCRecvWriteImm, m.length) {
			return badQueue
		}
		m.op = ib.OpInvalid
		m.done = 0
		m.view = mem.View{}
	}
	return pass
}

// placeWrite checks the length and key of a WRITE packet, then copies its payload.
func (r *responder) placeWrite(p *ib.Packet, info *ib.OpcodeInfo) verdict {
	m := &r.msg
	n := uint32(len(p.Payload))
	if info.Pos&ib.First != 0 {
		m.length, m.done = p.RETH.Len, 0
	}
	// IBTA 9.7.4.1.6: the last packet carries exactly the rest of the length in the RETH, and every
	// other packet less than that.
	if left := m.length - m.done; n > left || (n == left) != (info.Pos&ib.Last != 0) {
		return badRequest
	}
	if info.Pos&ib.First != 0 {
		qp := r.qp
		var f mem.Fault
		m.view, f = qp.e.cfg.Mem.Remote(qp.pd, qp.num, p.RETH.RKey, p.RETH.VA, m.length, mem.RemoteWrite)
		if f != mem.FaultNone {
			r.wc.VendorErr = uint32(f)
			return badAccess
		}
	} else if !m.view.Valid() {
		// The memory was deregistered or invalidated since the first packet.
		r.wc.VendorErr = uint32(mem.FaultState)
		return badAccess
	}
	copy(m.view.Bytes[m.done:], p.Payload)
	m.done += n
	return pass
}

// executed moves past a packet of a SEND or WRITE and notes the ACK that it requests.
func (r *responder) executed(p *ib.Packet, info *ib.OpcodeInfo) {
	r.next++
	if info.Pos&ib.Last != 0 {
		r.msn = r.msn.Next()
	}
	if p.AckReq {
		r.acknowledge()
	}
}

// complete pushes the completion of the held receive request, for a message of n bytes, and gives
// the request back. It returns false if the CQ overflowed.
func (r *responder) complete(p *ib.Packet, info *ib.OpcodeInfo, op WCOpcode, n uint32) bool {
	wc := &r.wc
	*wc = WC{Opcode: op, ByteLen: n, SL: r.sl}
	if info.Headers&ib.HasImmDt != 0 {
		wc.Flags |= WCWithImm
		wc.Imm = p.ImmDt
	}
	if info.Headers&ib.HasIETH != 0 {
		wc.Flags |= WCWithInv
		wc.InvKey = p.IETH
	}
	if info.Transport == ib.UD {
		wc.Flags |= WCWithGRH
		wc.SrcQP = p.DETH.SrcQP
	}
	return r.finishRecv(p.Solicited)
}

// finishRecv gives the held receive request back, then pushes r.wc for it. The order matters: an
// application that sees the completion may at once post another to a shared SRQ, which needs room.
func (r *responder) finishRecv(solicited bool) bool {
	qp, m := r.qp, &r.msg
	w := m.recv
	r.wc.ID = w.id
	r.wc.QPN = qp.num
	m.recv = nil
	m.op = ib.OpInvalid
	m.done = 0
	// Hold on to no memory that the application may deregister.
	m.cur = mem.Cursor{}
	m.sgl.Reset()
	qp.recycleRecv(w)
	ok := qp.recvCQ.push(qp.e, &r.wc, solicited)
	if ok && r.wc.Status == WCSuccess {
		qp.e.counters.RDMARecvs++
	}
	return ok
}

// failRecv completes the held receive request with an error. It reports whether there was one.
func (r *responder) failRecv(s WCStatus, vendor uint32) bool {
	if r.msg.recv == nil {
		return false
	}
	r.wc = WC{Status: s, VendorErr: vendor}
	r.finishRecv(true)
	return true
}
