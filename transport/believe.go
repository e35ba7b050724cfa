package transport

import "github.com/goroce/goroce/ib"

// A PSN says which request a response answers, and a window of the 2^24 PSNs is outstanding. A
// forger with addresses and QP number would soon guess one, and complete a SEND that has not
// arrived or end the connection. So a response also needs a plausible MSN, which counts the
// messages that the responder has completed (IBTA 9.7.7.1).
//
// The MSN is at least the number of messages before the answered one, and at most the number sent.
// (For a duplicate, rdma_rxe sends an older PSN with the current MSN if READs came in between.) A
// fatal NAK fits only one number, because nothing behind its request was executed. The NAK of a
// READ may have any: its memory can be taken away while later messages are executed.
//
// An adapter may count differently. An ACK that shows that the peer does not enables these rules.

// believes reports whether a response with a PSN in [una, end) counts as the peer's.
func (sq *requester) believes(now int64, p *ib.Packet) bool {
	w, info := sq.holder(p.PSN), p.Opcode.Info()
	switch {
	case w == nil:
		return true
	case p.PSN != sq.una && !w.answers(info):
		sq.ignore(now, p, "response of another kind")
		return false
	case info.Headers&ib.HasAETH != 0:
		if !sq.msnFits(w, p.PSN, p.AETH) {
			sq.ignore(now, p, "MSN that does not fit")
			return false
		}
	case p.PSN != sq.una:
		// Without an MSN it shows that responses are missing, but not which requests were executed.
		sq.ahead(now, p)
		return false
	}
	return true
}

// msnFits reports whether a response to packet psn of w may have the AETH h.
func (sq *requester) msnFits(w *sendWQE, psn ib.PSN, h ib.AETH) bool {
	if !sq.counts(w, psn, h) {
		return !sq.peerCounts
	}
	if h.MSN != w.number && h.Syndrome.Kind() == ib.SyndromeACK {
		sq.peerCounts = true
	}
	return true
}

// fitCredits is msnFits for an ACK of what is already acknowledged.
func (sq *requester) fitCredits(h ib.AETH) bool {
	done := sq.credit.sent
	if w := sq.holder(sq.una); w != nil && sq.una != sq.end {
		done = w.number
	}
	return !sq.peerCounts || (h.MSN-done)&ib.PSNMask <= (sq.credit.sent-done)&ib.PSNMask
}

// counts is msnFits for a peer known to count as we do.
func (sq *requester) counts(w *sendWQE, psn ib.PSN, h ib.AETH) bool {
	before := w.number // messages that are complete when this packet arrives
	if w.apart && w.op == WRWrite {
		before += ib.MSN(span(w.psn, psn))
	}
	ahead := (h.MSN - before) & ib.PSNMask
	if h.Syndrome.Kind() == ib.SyndromeNAK && h.Syndrome != ib.NAKSequence && w.op != WRRead {
		named := h.Syndrome != ib.NAKRemoteAccess || w.op != WRSend && w.op != WRSendImm // memory
		return ahead == 0 && named
	}
	return ahead <= (sq.credit.sent-before)&ib.PSNMask
}

// holder returns the request that contains psn, or nil.
func (sq *requester) holder(psn ib.PSN) *sendWQE {
	q := &sq.q
	for i := q.head; i != q.tail; i++ {
		if w := q.at(i); span(w.psn, psn) < int(w.npkts) {
			return w
		}
	}
	return nil
}

// answers reports whether a response is of the kind that w requests, or an acknowledgement, which
// may answer anything.
func (w *sendWQE) answers(info *ib.OpcodeInfo) bool {
	switch info.Op {
	case ib.OpReadResponse:
		return w.op == WRRead || w.op == WRFlush || w.op == WRAtomicWrite
	case ib.OpAtomicAck:
		return w.op == WRCompareSwap || w.op == WRFetchAdd
	}
	return true
}
