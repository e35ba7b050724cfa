package transport

import "github.com/goroce/goroce/ib"

// nakState is the NAK that the responder has outstanding or is about to send.
// There is one at most: after it nothing new is executed until the packet that
// it names arrives (IBTA 9.7.5.2.8). It is not in the queue of answers but
// behind it, where the repaired gap can still cancel it.
type nakState struct {
	due      bool // to be sent by the next PollTransmit
	syndrome ib.Syndrome
	seq      uint64

	latch   nakKind
	repeats uint8 // NAKs sent for this gap beyond the first
	againAt int64 // a NAK for this gap may be sent again
}

type nakKind uint8

const (
	nakNone nakKind = iota
	nakSequence
	nakRNR
)

// fatalState is set from a fatal NAK to the end of the linger.
type fatalState struct {
	active   bool
	syndrome ib.Syndrome
	seq      uint64
}

// gap handles a packet beyond the expected one: the first one of a gap is
// answered with a sequence NAK that names what is missing, and the rest are
// dropped (IBTA 9.7.5.2.8). The NAK itself may get lost, so it is repeated if
// packets still come, or nothing does, some time after it.
func (r *responder) gap(now int64, p *ib.Packet) {
	r.qp.e.counters.OutOfSeqRequest++
	r.drop(now, p, "out of sequence")
	k := &r.nak
	switch {
	case k.latch == nakNone:
		k.repeats = 0
	case now < k.againAt:
		return
	}
	r.sequenceNAK(now)
}

// sequenceNAK queues a NAK that names the expected PSN.
func (r *responder) sequenceNAK(now int64) {
	k := &r.nak
	r.sendNAK(ib.NAKSequence, r.next)
	k.latch = nakSequence
	k.againAt = now + r.rearmNs()<<min(k.repeats, maxNAKRepeats)
	r.qp.setTimer(timerNAK, k.againAt)
}

// rearmNs returns how long the first NAK of a gap is given to take effect.
func (r *responder) rearmNs() int64 {
	if ns := r.qp.e.cfg.Tuning.SeqNAKRearmNs; ns != 0 {
		return ns
	}
	return DefaultSeqNAKRearmNs
}

// repeatSequenceNAK repeats the sequence NAK of a gap that nothing has repaired.
func (r *responder) repeatSequenceNAK(now int64) {
	k := &r.nak
	if k.latch != nakSequence || k.repeats >= maxNAKRepeats {
		return
	}
	k.repeats++
	r.sequenceNAK(now)
}

// stopNAK ends the wait for the expected packet: it arrived, or nobody waits
// any more. A NAK that has not left is not sent.
func (r *responder) stopNAK() {
	if r.nak.latch == nakSequence {
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
func (r *responder) receiverNotReady(now int64) {
	code := r.qp.attr.MinRNRTimer
	r.sendNAK(ib.RNRNAK(code), r.next)
	r.nak.latch = nakRNR
	r.nak.repeats = 0
	r.nak.againAt = now + code.Ns() + r.rearmNs()
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
		r.receiverNotReady(now)
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
	linger := qp.e.cfg.Tuning.FatalLingerNs
	if linger == 0 {
		linger = DefaultFatalLingerNs
	}
	qp.setTimer(timerLinger, now+linger)
	qp.markReady()
}

// repeatFatal answers a duplicate of the request that failed.
func (r *responder) repeatFatal() {
	if !r.nak.due {
		r.nak.due = true
		r.nak.syndrome, r.nak.seq = r.fatal.syndrome, r.fatal.seq
		r.qp.markReady()
	}
}

// lingers reports whether requests are still answered although the QP is in
// ERR.
func (r *responder) lingers() bool { return r.fatal.active }

// onTimer runs a timer of the responder that has expired.
func (r *responder) onTimer(now int64, id timerID) {
	switch id {
	case timerNAK:
		r.repeatSequenceNAK(now)
	case timerLinger:
		r.fatal = fatalState{}
		r.nak = nakState{}
		r.out.reset()
	}
}

// drop traces a packet that is not executed.
func (r *responder) drop(now int64, p *ib.Packet, why string) {
	if t := r.qp.e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceDrop, QPN: r.qp.num, Opcode: p.Opcode, PSN: p.PSN, Detail: why})
	}
}
