package transport

import "github.com/goroce/goroce/ib"

// nakState is the NAK that is outstanding or due, of which there is at most one: after it nothing
// new is executed until the packet that it names arrives (IBTA 9.7.5.2.2). It is not in the queue
// of answers but behind it, so that a repaired gap can still cancel it.
type nakState struct {
	due      bool // to be sent by the next PollTransmit
	syndrome ib.Syndrome
	latch    nakKind
	repeats  uint8 // NAKs since the first of this gap, or since its repair was lost
	seq      uint64
	firstAt  int64  // when the first one left
	againAt  int64  // earliest time to repeat the NAK, once this one has left
	far      int    // how far ahead packets have been since it was queued
	seen     uint64 // bitmap of the next 64 PSNs that have come since: see anew
}

type nakKind uint8

const (
	nakNone nakKind = iota
	nakSequence
	nakRNR
	nakFar // none yet: a packet far ahead has come, and no expected one since
)

// fatalState lasts from a fatal NAK to the end of the linger.
type fatalState struct {
	active   bool
	syndrome ib.Syndrome
	seq      uint64
}

// gap handles a packet d beyond the expected one: it keeps (responder_ahead.go) or drops it. The
// first one of a gap draws a sequence NAK that names the missing packet (IBTA 9.7.5.2.2). A NAK may
// be lost as well, so it is repeated some time later, if packets still come or none does. If the
// requester has gone back and lost the missing packet again, the NAK is repeated at once.
func (r *responder) gap(now int64, p *ib.Packet, d int) {
	c := &r.qp.e.counters
	c.OutOfSeqRequest++
	k := &r.nak
	news := false // for a requester that wants keptMaps
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

// anew notes a packet d ahead. It reports whether it came before, and others well behind it: then
// the requester has gone back, and the missing packet, which it resends first, was lost again.
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

// repaired learns how long a NAK takes to bring the missing packet, counted from the first NAK. If
// that one was lost and a repetition did the work, the estimate is too long.
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

// nearGap returns how far ahead of the expected PSN a packet may be to count as behind a gap at
// once: see minNearGap. A QP with a larger window assumes one as large at its peer.
func (r *responder) nearGap() int {
	return max(minNearGap, r.keepsAhead(), r.qp.attr.MaxUnackedPackets, r.qp.e.cfg.Tuning.MaxUnackedPackets)
}

// awaitProgress delays the NAK for a packet far ahead. Addresses and QP number suffice to forge
// one, and a NAK for each would keep sending the peer back. But it may be genuine: a lost READ
// takes up to 2^23 PSNs. In that case no expected packet arrives any more, so the NAK is sent if
// none has come within the peer's ACK timeout.
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

// nakLeft starts the time in which the NAK is not repeated. It runs when the NAK leaves, not when
// it is queued, because a NAK may wait behind paced READ responses.
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

// rearmNs returns how long the first NAK of a gap gets to take effect: the known repair time, if
// longer than the default. An early repetition makes a requester go back again and wastes what it
// has sent since. A requester that gets keptMaps does not go back.
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

// nakExpired sends the sequence NAK of an unrepaired gap again, or for the first time if it was
// delayed.
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

// stopNAK ends the wait for the expected packet, because it arrived or no longer matters. It
// cancels a NAK that has not left.
func (r *responder) stopNAK() {
	if r.nak.latch == nakSequence || r.nak.latch == nakFar {
		r.qp.stopTimer(timerNAK)
	}
	r.nak = nakState{}
}

// sendNAK makes a NAK due. buildNAK counts it when it leaves, since a repaired gap may cancel it.
func (r *responder) sendNAK(s ib.Syndrome, seq uint64) {
	r.nak.due, r.nak.syndrome, r.nak.seq = true, s, seq
	r.qp.e.counters.AckDeferred++
	r.qp.markReady()
}

// receiverNotReady answers a request that needs a receive request when none is posted. The peer
// resends it after the time in the NAK. Packets that it sends meanwhile are behind a gap, but draw
// no sequence NAK, which would make some requesters cut their wait short.
func (r *responder) receiverNotReady() {
	r.sendNAK(ib.RNRNAK(r.qp.attr.MinRNRTimer), r.next)
	r.nak.latch = nakRNR
	r.nak.repeats = 0
}

// nakOf says what a verdict means on the wire and locally (IBTA 9.9.3, table of responder errors).
// The status completes the receive request that the message holds; without one, the event reports
// the error (IBTA 11.6.3.2).
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

// refuse ends a request that did not pass a check.
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

// fail sends a fatal NAK for seq and moves the QP to ERR. During a linger, duplicates of that
// request get the NAK again: a peer that lost it would otherwise see a timeout or, if it retries
// for ever as rxe does, nothing. told says that a completion has reported the error.
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

// afterFatal handles a request after a fatal NAK. The failed request gets the same NAK again, and
// so do requests before it, which the NAK acknowledges. But no READ is executed again and no saved
// result is sent, because in ERR the peer may not use the QP's memory. A peer that lost such an
// answer runs out of retries, as it would with a silent peer. Requests behind the failed one are
// dropped: the peer learns of the failure by the earlier one.
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
		// This READ failed after part of its answer. A NAK with the PSN of the failure would
		// acknowledge that part, which may be what was lost.
		r.nak.seq = seq
	}
	r.qp.markReady()
}

// lingers reports whether a fatal NAK is still repeated although the QP is in ERR.
func (r *responder) lingers() bool { return r.fatal.active }

// endLinger silences the responder: the linger is over, or the application has requested ERR.
func (r *responder) endLinger() {
	r.qp.stopTimer(timerLinger)
	r.fatal = fatalState{}
	r.nak = nakState{}
	r.out.reset()
}

// onTimer handles an expired timer of the responder.
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
