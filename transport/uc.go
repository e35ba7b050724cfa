package transport

import "github.com/goroce/goroce/ib"

// handleUC handles one packet of an unreliable connection. It acknowledges nothing. A message with
// a missing packet is dropped, and the next first packet starts a new one whatever came before
// (IBTA 9.8.2.2; rxe also loses the message after one whose last packet is missing). The receive
// request of a dropped message serves the next one.
func (qp *QP) handleUC(now int64, p *ib.Packet) {
	r := &qp.resp
	if (qp.state == StateRTR || qp.watchFirst) && p.PSN.InRange(psnOf(r.base), minNearGap) {
		// Packets may have been lost before it, but one far from the connection's first PSN is not
		// the peer's.
		qp.commEstablished()
	}
	info := p.Opcode.Info()
	if r.msg.op != ib.OpInvalid && (p.PSN != psnOf(r.next) || info.Pos&ib.First != 0) {
		r.dropMessage()
	}
	r.next = seqBase + uint64(p.PSN.Next())
	v := r.checkSequence(info)
	if v != pass {
		qp.e.counters.DropUCGap++
		r.drop(now, p, "UC packet of a broken message")
		return
	}
	if v = r.checkRights(p, info); v == pass {
		v = r.checkResources(p, info)
	}
	if v == pass {
		v = r.checkLength(p, info)
	}
	if v == pass {
		if info.Op == ib.OpSend {
			v = r.doSend(p, info)
		} else {
			v = r.doWrite(p, info)
		}
	}
	if v != pass {
		r.refuseUnreliable(now, p, v)
	}
}

// refuseUnreliable drops a message that cannot be delivered. An error in the peer's request has no
// consequence here (IBTA 9.9.3, class D); an error in the local receive queue ends the QP (class
// A).
func (r *responder) refuseUnreliable(now int64, p *ib.Packet, v verdict) {
	qp := r.qp
	c := &qp.e.counters
	vendor := r.wc.VendorErr
	r.wc.VendorErr = 0
	switch v {
	case notReady, badLength:
		c.DropNoRecv++
		qp.noRecv++
		r.drop(now, p, "no receive request, or too small")
		if v == badLength && qp.srq != nil {
			// Class E: the request of an SRQ is not kept for this QP but completed with an error.
			r.failRecv(WCLocalLenErr, vendor)
		}
	case badAccess:
		c.DropAccess++
		r.drop(now, p, "remote access")
	case badRequest:
		c.DropMalformed++
		r.drop(now, p, "invalid request")
	case badBuffer:
		r.failRecv(WCLocalProtErr, vendor)
		qp.enterErr(now)
		return
	default:
		qp.fatal(now, EventQPFatal)
		return
	}
	r.dropMessage()
}
