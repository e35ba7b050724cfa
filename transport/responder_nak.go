package transport

import "github.com/goroce/goroce/ib"

// nakState is the NAK that the responder has outstanding or is about to send.
// There is one at most: after it nothing new is executed until the packet that
// it names arrives (IBTA 9.7.5.2.2). It is not in the queue of answers but
// behind it, where the repaired gap can still cancel it.
type nakState struct {
	due      bool // to be sent by the next PollTransmit
	syndrome ib.Syndrome
	latch    nakKind
	repeats  uint8 // NAKs sent for this gap beyond the first, or since what is missing was seen to be lost again
	seq      uint64
	firstAt  int64  // when that one left
	againAt  int64  // a NAK for this gap may be sent again, once this one has left
	far      int    // how far ahead a packet has been since it was queued
	seen     uint64 // which of the next 64 have come since: see anew
}

type nakKind uint8

const (
	nakNone nakKind = iota
	nakSequence
	nakRNR
	nakFar // none yet: a packet far ahead has come, and nothing expected since
)

// fatalState is set from a fatal NAK to the end of the linger.
type fatalState struct {
	active   bool
	syndrome ib.Syndrome
	seq      uint64
}

// gap handles a packet d beyond the expected one: it is kept (responder_ahead.go) or dropped. The first one of a gap is
// answered with a sequence NAK that names what is missing (IBTA 9.7.5.2.2). The NAK itself may get lost, so it is repeated if
// packets still come, or nothing does, some time after it. If the requester has gone back, and what is missing was lost
// again, it is repeated at once.
func (r *responder) gap(now int64, p *ib.Packet, d int) {
	c := &r.qp.e.counters
	c.OutOfSeqRequest++
	k := &r.nak
	news := false // for a requester that wants to know what is here
	if d > r.nearGap() {
		c.FarAheadRequest++
		r.drop(now, p, "far ahead")
		if k.latch == nakNone {
			r.awaitProgress(now)
		}
		if k.latch != nakSequence {
			return
		}
	} else {
		news = r.keepAhead(now, p, d)
	}
	anew := k.anew(d)
	switch {
	case k.latch == nakNone || k.latch == nakFar:
		k.repeats = 0
	case k.due:
		return
	case r.told && k.latch == nakSequence:
		if !news && now < k.againAt {
			return
		}
	case k.latch == nakSequence && anew:
		r.repaired(now)
		k.repeats = 0
	case now < k.againAt:
		return
	case k.latch == nakSequence:
		k.repeats = min(k.repeats+1, maxNAKRepeats)
	}
	k.far, k.seen = d, 0
	k.anew(d)
	r.sequenceNAK()
}

// anew notes a packet d ahead. It reports whether that has come before, and more than a few behind it since: the
// requester has gone back. It sends what is missing first; so that was lost again.
func (k *nakState) anew(d int) bool {
	k.far = max(k.far, d)
	if d > 64 {
		return false
	}
	bit := uint64(1) << (d - 1)
	again := k.seen&bit != 0 && d+maxReorder < k.far
	k.seen |= bit
	return again
}

// repaired learns how long a NAK takes to bring what is missing. If it was repeated, the first one did that, or it was lost
// and the time is too long.
func (r *responder) repaired(now int64) {
	k := &r.nak
	if k.latch != nakSequence || k.due || r.told {
		return
	}
	ns := max(now-k.firstAt, 1)
	if r.repairNs == 0 {
		r.repairNs = ns
	}
	r.repairNs += (min(ns, 4*r.repairNs) - r.repairNs) / 4
}

// nearGap returns how far ahead of the expected PSN a packet is believed at
// once to be behind a gap: see minNearGap. A QP with a large window of its own
// has a peer with one as large.
func (r *responder) nearGap() int {
	return max(minNearGap, r.qp.attr.MaxUnackedPackets, r.qp.e.cfg.Tuning.MaxUnackedPackets)
}

// awaitProgress puts off the NAK for a packet that is far ahead. Anybody can
// make one up who knows addresses and QP number, and a NAK for each would send
// the peer back all the time. But it can be true: a READ that was lost takes up
// to 2^23 PSNs. Then nothing that is expected arrives any more, so the NAK goes
// out if that has not changed after the time that the peer gives to an answer.
func (r *responder) awaitProgress(now int64) {
	ns := r.qp.attr.Timeout.Ns()
	if ns == 0 || ns > maxFarGapNs {
		ns = maxFarGapNs
	}
	k := &r.nak
	k.latch = nakFar
	k.againAt = now + max(ns, r.rearmNs())
	r.qp.setTimer(timerNAK, k.againAt)
}

// sequenceNAK queues a NAK that names the expected PSN.
func (r *responder) sequenceNAK() {
	r.sendNAK(ib.NAKSequence, r.next)
	r.nak.latch = nakSequence
}

// nakLeft starts the time in which the NAK of a gap is not repeated. Not when the
// NAK is queued: behind READ responses that are paced it waits, and the peer
// cannot have heard of it.
func (r *responder) nakLeft(now int64) {
	k := &r.nak
	if k.repeats == 0 {
		k.firstAt = now
	}
	switch k.latch {
	case nakSequence:
		k.againAt = now + r.rearmNs()<<min(k.repeats, maxNAKRepeats)
		r.qp.setTimer(timerNAK, k.againAt)
	case nakRNR:
		k.againAt = now + k.syndrome.RNRCode().Ns() + r.rearmNs()
	}
}

// rearmNs returns how long the first NAK of a gap is given to take effect: as long as that takes, if it is known. A
// requester that goes back does so for each NAK, and what it has sent since the last one is for nothing then. One that is
// told what is here does not.
func (r *responder) rearmNs() int64 {
	ns := int64(r.qp.e.cfg.Tuning.SeqNAKRearm)
	if ns == 0 {
		ns = DefaultSeqNAKRearmNs
	}
	if !r.told {
		ns = max(ns, min(r.repairNs+r.repairNs/4, maxFarGapNs))
	}
	return ns
}

// nakExpired sends the sequence NAK of a gap that nothing has repaired: again,
// or for the first time if it was put off.
func (r *responder) nakExpired() {
	k := &r.nak
	switch {
	case k.latch == nakFar:
		k.repeats = 0
	case k.latch != nakSequence || k.repeats >= maxNAKRepeats:
		return
	default:
		k.repeats++
	}
	r.sequenceNAK()
}

// stopNAK ends the wait for the expected packet: it arrived, or nobody waits
// any more. A NAK that has not left is not sent.
func (r *responder) stopNAK() {
	if r.nak.latch == nakSequence || r.nak.latch == nakFar {
		r.qp.stopTimer(timerNAK)
	}
	r.nak = nakState{}
}

// sendNAK makes a NAK due. It is counted when it leaves: a repaired gap may
// cancel it before.
func (r *responder) sendNAK(s ib.Syndrome, seq uint64) {
	r.nak.due, r.nak.syndrome, r.nak.seq = true, s, seq
	r.qp.e.counters.AckDeferred++
	r.qp.markReady()
}

// receiverNotReady answers a request that needs a receive request when there
// is none. The peer sends it again after the time in the NAK; what it sends
// meanwhile is behind a gap that needs no sequence NAK (one would make some
// requesters cut their wait short).
func (r *responder) receiverNotReady() {
	r.sendNAK(ib.RNRNAK(r.qp.attr.MinRNRTimer), r.next)
	r.nak.latch = nakRNR
	r.nak.repeats = 0
}

// nakOf is what a verdict means on the wire and here (IBTA 9.9.3, table of
// responder errors). The status is for the receive request that the message
// holds; without one, the event tells of it (IBTA 11.6.3.2).
var nakOf = [...]struct {
	syndrome ib.Syndrome
	status   WCStatus
	event    EventType
}{
	badRequest: {ib.NAKInvalidRequest, WCRemoteInvReqErr, EventQPRequestError},
	badAccess:  {ib.NAKRemoteAccess, WCLocalAccessErr, EventQPAccessError},
	badLength:  {ib.NAKInvalidRequest, WCLocalLenErr, EventQPRequestError}, // rxe: 0x63
	badBuffer:  {ib.NAKRemoteOperation, WCLocalProtErr, EventQPFatal},
	badQueue:   {ib.NAKRemoteOperation, WCLocalQPOpErr, EventQPFatal},
}

// refuse ends a request that did not pass.
func (r *responder) refuse(now int64, p *ib.Packet, v verdict) {
	if v == notReady {
		r.receiverNotReady()
		return
	}
	r.drop(now, p, "refused")
	vendor := r.wc.VendorErr
	r.wc.VendorErr = 0
	n := &nakOf[v]
	told := r.failRecv(n.status, uint32(n.syndrome)<<8|vendor)
	r.fail(now, n.syndrome, r.next, n.event, told)
}

// fail sends a fatal NAK for seq and moves the QP to ERR. The NAK is repeated
// for duplicates of that request during a linger, because a peer that loses it
// would see a timeout in its place, or, if it retries for ever as rxe does,
// nothing. told says that a completion has reported the error.
func (r *responder) fail(now int64, s ib.Syndrome, seq uint64, ev EventType, told bool) {
	qp := r.qp
	r.stopNAK()
	r.fatal = fatalState{active: true, syndrome: s, seq: seq}
	r.sendNAK(s, seq)
	if told {
		qp.enterErr(now)
	} else {
		qp.fatal(now, ev)
	}
	linger := int64(qp.e.cfg.Tuning.FatalLinger)
	if linger == 0 {
		linger = DefaultFatalLingerNs
	}
	qp.setTimer(timerLinger, now+linger)
	qp.markReady()
}

// afterFatal handles a request that comes after a fatal NAK. The request that
// failed gets the same NAK again. So do those before it: the NAK acknowledges
// them. But a READ is not done again and no saved result is sent, because the QP
// is in ERR: its memory is no business of the peer any more, and a peer that has
// lost such an answer runs out of retries, as it would with one that falls
// silent at once. What is behind the failed request is dropped: the peer will be
// told about that one.
func (r *responder) afterFatal(now int64, p *ib.Packet, info *ib.OpcodeInfo, seq uint64) {
	f := &r.fatal
	if seq < f.seq {
		r.qp.e.counters.DuplicateRequest++
	}
	if seq < r.base || seq > f.seq {
		r.drop(now, p, "after fatal NAK")
		return
	}
	if r.nak.due {
		return
	}
	r.nak.due = true
	r.nak.syndrome, r.nak.seq = f.syndrome, f.seq
	if info.Op == ib.OpRead && seq+r.readPackets(p.RETH.Len) > f.seq {
		// It was this READ that failed, after part of its answer. With the PSN of the
		// failure the NAK would acknowledge that part, which may be what was lost.
		r.nak.seq = seq
	}
	r.qp.markReady()
}

// lingers reports whether a fatal NAK is still repeated although the QP is in
// ERR.
func (r *responder) lingers() bool { return r.fatal.active }

// endLinger makes the responder silent: the linger is over, or the application
// has asked for ERR itself.
func (r *responder) endLinger() {
	r.qp.stopTimer(timerLinger)
	r.fatal = fatalState{}
	r.nak = nakState{}
	r.out.reset()
}

// onTimer runs a timer of the responder that has expired.
func (r *responder) onTimer(now int64, id timerID) {
	switch id {
	case timerNAK:
		r.nakExpired()
	case timerLinger:
		r.endLinger()
	}
}

// drop traces a packet that is not executed.
func (r *responder) drop(now int64, p *ib.Packet, why string) {
	if t := r.qp.e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceDrop, QPN: r.qp.num, Opcode: p.Opcode, PSN: p.PSN, Detail: why})
	}
}
