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
// buffers. On the unreliable transports it may reuse the request of a broken message.
func (r *responder) takeBuffers(n int) verdict {
	if !r.takeRecv() {
		return notReady
	}
	return r.resolve(uint64(n))
}

// resolve checks the receive buffers, of which a message fills n bytes so far. Where some are bad
// those bytes alone count, as on rxe and cards: perftest rounds the length of its receives up,
// beyond the end of its region, and libfabric's fi_shared_ctx receives messages of nothing with key
// 0.
func (r *responder) resolve(n uint64) verdict {
	qp, m := r.qp, &r.msg
	pd := qp.pd
	if qp.srq != nil {
		pd = qp.srq.pd
	}
	f := qp.e.cfg.Mem.Resolve(pd, m.recv.sges, mem.LocalWrite, &m.sgl)
	if f != mem.FaultNone && n < m.recv.total {
		var first [mem.MaxSGE]mem.SGE
		part := first[:copy(first[:], m.recv.sges)]
		for i := range part {
			part[i].Length = uint32(min(uint64(part[i].Length), n))
			n -= uint64(part[i].Length)
		}
		f = qp.e.cfg.Mem.Resolve(pd, part, mem.LocalWrite, &m.sgl)
	}
	if f != mem.FaultNone {
		r.wc.VendorErr = uint32(f)
		return badBuffer
	}
	m.cur = m.sgl.Cursor()
	m.cur.Seek(uint64(m.done))
	return pass
}

// doSend places one packet of a SEND, and completes the message with the last one.
func (r *responder) doSend(p *ib.Packet, info *ib.OpcodeInfo) verdict {
	m := &r.msg
	if v := r.place(p.Payload); v != pass {
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
func (r *responder) place(payload []byte) verdict {
	m := &r.msg
	all := uint64(m.done) + uint64(len(payload))
	if all > MaxMessage {
		return badLength
	}
	if uint64(len(payload)) > m.cur.Left() {
		if all > m.recv.total {
			return badLength
		}
		if v := r.resolve(all); v != pass {
			return v
		}
	}
	if !m.sgl.Valid() {
		r.wc.VendorErr = uint32(mem.FaultState)
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
	} else if info.Pos&ib.Last != 0 {
		r.unasked = true
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
