package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// Registered memory may not be there when it is touched: see mem.FaultAddr. The
// shell has such an access panic (debug.SetPanicOnFault), and this file makes an
// error of the queue pair out of it. What is recovered from is an access and
// nothing else: the address that faulted lies in a registered region, or the panic
// goes on.
//
// A recover for each packet would cost more than the copy of a small one, so
// there is one for a batch. That is sound because each access to memory is the
// last thing that may fail in a packet, and none has changed anything before
// it that its error does not mend: to continue behind the panic in errorOf is
// to return the error from where the access was.

// HandlePackets is HandlePacket for each of rx, in order, and contains faults of registered
// memory. Packets that differ in little are handled together: see run.go.
func (e *Engine) HandlePackets(now int64, rx []RxPacket) { e.HandleUnverified(now, rx, nil) }

// HandleUnverified is HandlePackets for packets that may be ICRCUnknown. Each of these is checked by c right before anything
// is done with it, so that its payload is still in the fastest cache when it is copied. What is wrong is passed over, as if it had
// not come; without a Checker, all of them are.
func (e *Engine) HandleUnverified(now int64, rx []RxPacket, c Checker) {
	e.run.check, e.run.heard = c, 0
	for at := 0; at < len(rx); {
		at += e.handleUpTo(now, rx, at)
	}
	e.run.check = nil
}

// handleUpTo handles packets from at on until one meets memory that is not there, and returns how
// many, with that.
func (e *Engine) handleUpTo(now int64, batch []RxPacket, at int) (n int) {
	rx := batch[at:]
	defer func() {
		if v := recover(); v != nil {
			e.lose(v)
			n += e.endRun(1)
			e.faulted(now, e.lastQP, &e.rx)
		}
	}()
	run := 0 // so many are alike
	for n < len(rx) {
		e.run.at = at + n
		if e.run.heard != 0 && at+n == e.run.heard {
			n++
			run = 0
			continue
		}
		if rx[n].ICRC != ICRCRight && !e.right(rx[n:], 0) {
			n++
			run--
			continue
		}
		if run < 2 {
			run = runLength(rx[n:])
			if j := n + run; at+j != e.run.heard && ackBehind(rx, j-1) && e.right(rx[n:], run) {
				e.HandlePacket(now, &rx[j])
				e.run.heard = at + j
			}
		}
		done := 0
		if run > 1 {
			done = e.handleRun(now, rx[n:n+run])
		}
		if done == 0 {
			e.HandlePacket(now, &rx[n])
			done = 1
		}
		n += done
		run -= done
	}
	return n
}

// handleContained handles a datagram to a group for one of its QPs.
func (e *Engine) handleContained(now int64, qp *QP, p *ib.Packet, rx *RxPacket) {
	defer func() {
		if v := recover(); v != nil {
			e.lose(v)
			e.faulted(now, qp, p)
		}
	}()
	qp.handleUD(now, p, rx)
}

// lose gives up the regions that a recovered panic is about. A panic that is about
// something else goes on.
func (e *Engine) lose(recovered any) {
	addr, ok := mem.FaultAddr(recovered)
	if !ok || e.cfg.Mem.Lose(addr) == 0 {
		panic(recovered)
	}
	e.counters.MemoryFaults++
}

// faulted goes on with a received packet whose access to memory failed.
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

// copyOut is Cursor.CopyOut that contains faults.
func (e *Engine) copyOut(c *mem.Cursor, dst []byte) (n int, f mem.Fault) {
	defer e.contain(&f)
	return c.CopyOut(dst), mem.FaultNone
}

// copyGuarded is copy that contains faults of src.
func (e *Engine) copyGuarded(dst, src []byte) (n int, f mem.Fault) {
	defer e.contain(&f)
	return copy(dst, src), mem.FaultNone
}

// contain is to be deferred around an access. It sets f if the memory was not there.
func (e *Engine) contain(f *mem.Fault) {
	if v := recover(); v != nil {
		e.lose(v)
		*f = mem.FaultMemory
	}
}

// TransmitFault takes notice that the payload of a packet made by PollTransmit could not be
// read: addr, an address in it, is not there. The request fails, or
// the READ whose response it was. It reports false, and does nothing, if addr is not in the
// payload, or not in registered memory.
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

// payloadFaulted fails the request whose packet with psn could not be sent. Its
// completion waits for those before it, as ever; nothing behind it is sent.
func (sq *requester) payloadFaulted(now int64, psn ib.PSN) {
	q, qp := &sq.q, sq.qp
	for i := q.head; i != q.tail; i++ {
		w := q.at(i)
		switch {
		case w.state == wqeRefused:
			return // for an earlier packet
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
		// Complete already: an unreliable request is when the link has its packets.
		qp.fatal(now, EventQPFatal)
	}
}
