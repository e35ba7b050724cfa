package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// Registered memory may be gone when it is accessed: see mem.FaultAddr. The shell makes such an
// access panic (debug.SetPanicOnFault), and this file turns the panic into an error of the queue
// pair. It recovers from accesses only: unless the faulting address lies in a registered region,
// the panic continues.
//
// A recover per packet would cost more than copying a small one, so there is one per batch, in
// handleUpTo. That is sound because each access to memory is the last step of a packet that may
// fail, and its error covers every change before it. So continuing after the panic, in faulted,
// equals returning the error at the access.

// handleContained handles a multicast datagram for one of its QPs.
func (e *Engine) handleContained(now int64, qp *QP, p *ib.Packet, rx *RxPacket) {
	defer func() {
		if v := recover(); v != nil {
			e.lose(v)
			e.faulted(now, qp, p)
		}
	}()
	qp.handleUD(now, p, rx)
}

// lose gives up the regions that a recovered panic is about. It continues any other panic.
func (e *Engine) lose(recovered any) {
	addr, ok := mem.FaultAddr(recovered)
	if !ok || e.cfg.Mem.Lose(addr) == 0 {
		panic(recovered)
	}
	e.counters.MemoryFaults++
}

// faulted continues with a received packet whose access to memory failed.
func (e *Engine) faulted(now int64, qp *QP, p *ib.Packet) {
	info := p.Opcode.Info()
	if info.Transport == ib.RC && info.Response {
		qp.sq.failHead(now, WCLocalProtErr, uint32(mem.FaultMemory))
		return
	}
	r := &qp.resp
	v := badAccess
	if info.Op == ib.OpSend {
		v = badBuffer
	}
	r.wc.VendorErr = uint32(mem.FaultMemory)
	if qp.typ == ib.RC {
		r.refuse(now, p, v)
	} else {
		r.refuseUnreliable(now, p, v)
	}
}

// copyOut is Cursor.CopyOut, but contains faults.
func (e *Engine) copyOut(c *mem.Cursor, dst []byte) (n int, f mem.Fault) {
	defer e.contain(&f)
	return c.CopyOut(dst), mem.FaultNone
}

// copyGuarded is copy, but contains faults of src.
func (e *Engine) copyGuarded(dst, src []byte) (n int, f mem.Fault) {
	defer e.contain(&f)
	return copy(dst, src), mem.FaultNone
}

// contain sets f if memory was gone. The caller defers it around an access.
func (e *Engine) contain(f *mem.Fault) {
	if v := recover(); v != nil {
		e.lose(v)
		*f = mem.FaultMemory
	}
}

// TransmitFault reports that the payload of a packet from PollTransmit could not be read, because
// addr, an address in it, is gone. The request fails, or the READ that the packet answers.
// TransmitFault returns false, and does nothing, if addr is not in the payload or not in registered
// memory.
func (e *Engine) TransmitFault(now int64, tx *TxPacket, addr uint64) bool {
	if !tx.Holds(addr) || e.cfg.Mem.Lose(addr) == 0 {
		return false
	}
	e.counters.MemoryFaults++
	qp := e.qps[tx.SrcQP]
	if qp == nil {
		return true
	}
	op, psn := tx.OpcodeAndPSN()
	if op.Info().Response {
		qp.resp.readFaulted(now, psn)
	} else {
		qp.sq.payloadFaulted(now, psn)
	}
	return true
}

// readFaulted ends a READ whose response with psn could not be sent.
func (r *responder) readFaulted(now int64, psn ib.PSN) {
	if r.qp.state == StateErr {
		return
	}
	r.out.reset()
	r.fail(now, ib.NAKRemoteAccess, r.next-uint64(span(psn, psnOf(r.next))), EventQPAccessError, false)
}

// payloadFaulted fails the request whose packet with psn could not be sent. Its completion waits
// for those before it; nothing behind it is sent.
func (sq *requester) payloadFaulted(now int64, psn ib.PSN) {
	q, qp := &sq.q, sq.qp
	for i := q.head; i != q.tail; i++ {
		w := q.at(i)
		switch {
		case w.state == wqeRefused:
			return // an earlier packet failed it
		case w.state != wqeBegun || span(w.psn, psn) >= int(w.npkts):
			continue
		}
		if qp.typ != ib.RC {
			sq.failHead(now, WCLocalProtErr, uint32(mem.FaultMemory))
			return
		}
		w.state, w.status, w.vendor = wqeRefused, WCLocalProtErr, uint32(mem.FaultMemory)
		if !sq.failRefused(now) && span(sq.una, w.psn) < span(sq.una, sq.psn) {
			q.cur, sq.curPkt, sq.psn = i, 0, w.psn
		}
		return
	}
	if qp.typ != ib.RC {
		// Already complete: an unreliable request is once the link has its packets.
		qp.fatal(now, EventQPFatal)
	}
}
