package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// responder is the receive side of a QP: it executes the peer's requests and sends answers. Its
// files:
//
//	responder.go         takes one request through the chain of checks
//	responder_check.go   sequence, rights, resources, lengths
//	responder_exec.go    SEND and WRITE
//	responder_ops.go     READ, atomics, ATOMIC WRITE, FLUSH
//	responder_answer.go  the queue of answers, ACK coalescing, credits
//	responder_ahead.go   requests that come before their turn
//	responder_replay.go  duplicates, and what is remembered for them
//	responder_nak.go     NAK policy, errors, linger
//	responder_tx.go      packets that carry answers
//	uc.go, ud.go         the unreliable transports, which share this state
//
// Invariants:
//
//   - Requests are executed in PSN order, each once. A packet changes memory only after it has
//     passed every check.
//   - Answers leave in the order of the PSNs that they answer; answers to duplicates queue behind
//     them. An ACK never covers the PSN of a READ, atomic, ATOMIC WRITE or FLUSH: a requester that
//     had lost the answer would take the operation for done, without its data (rxe does).
//   - next-1 is the newest PSN executed; base is the first one ever expected. PSNs are extended to
//     64 bits here, so that remembered ones cannot be confused with others 2^24 packets younger.
type responder struct {
	qp   *QP
	next uint64 // sequence number expected; its low 24 bits are the PSN
	msn  ib.MSN // messages completed
	cnp  cnpState
	nak  nakState
	out  answerQueue
	msg  message

	told     bool    // the peer knows selective repeat
	unasked  bool    // the newest message requests no answer: see patient.go
	kept     reorder // requests that came before their turn
	repairNs int64   // time from a sequence NAK to the missing packet; 0 if unknown

	fatal   fatalState
	base    uint64 // sequence number of the first packet of this connection
	store   replayStore
	readAt  int64  // when a READ repeated too often gets another packet
	tooLong uint64 // Path.TooLong when the newest READ was taken
	wc      WC     // the completion being made
	sl      uint8  // UD: WC.SL of the datagram at hand
}

// message is the SEND or WRITE in progress, between its first packet and its last.
type message struct {
	op     ib.Operation // OpSend or OpWrite; OpInvalid between messages
	done   uint32       // bytes placed
	length uint32       // WRITE: bytes announced in the RETH
	view   mem.View     // WRITE: where they are placed
	recv   *recvWQE     // receive request taken for this message or the next
	sgl    mem.SGL      // its buffers
	cur    mem.Cursor   // position in them
}

// seqBase keeps extended sequence numbers away from 0, so that those of duplicates do not wrap.
const seqBase = 1 << 32

// verdict is the outcome of one check of a request.
type verdict uint8

const (
	pass       verdict = iota
	notReady           // no receive request: RNR NAK
	badRequest         // NAK invalid request
	badAccess          // NAK remote access error
	badLength          // SEND longer than the receive buffers: NAK invalid request
	badBuffer          // bad buffers in a receive request: NAK remote operational error
	badQueue           // the completion could not be delivered: NAK remote operational error
)

// init ties the responder to its QP, once, when the QP is created.
func (r *responder) init(qp *QP) { r.qp = qp }

// start begins a connection, at the transition from INIT to RTR. The first packet must have the PSN
// of attribute rq_psn.
func (r *responder) start(now int64) {
	r.next = seqBase + uint64(r.qp.attr.RQPSN&ib.PSNMask)
	r.base = r.next
	r.msn = 0
	r.dropMessage()
	r.store.init(r.qp.attr.MaxDestRdAtomic)
	r.out.reset()
	r.nak = nakState{}
	r.fatal = fatalState{}
	r.told, r.unasked, r.repairNs = false, false, 0
	r.kept.clear(r.qp.e)
}

// reset forgets everything, at the transition to RESET and when the QP is destroyed. The caller has
// stopped the timers and recycled the receive request.
func (r *responder) reset() {
	r.kept.clear(r.qp.e)
	*r = responder{qp: r.qp, msg: message{sgl: r.msg.sgl}}
	r.msg.sgl.Reset()
}

// toErr stops the responder at the transition to ERR, before the receive queue is flushed. After a
// fatal NAK of its own it still sends what it owed up to that NAK, and repeats the NAK until the
// linger ends. Otherwise the QP falls silent.
func (r *responder) toErr() {
	r.dropMessage()
	r.msg.recv = nil // it is qp.curRecv, which the flush completes
	r.cnp.due = false
	r.kept.clear(r.qp.e)
	if !r.fatal.active {
		r.out.reset()
		r.stopNAK()
	}
}

// expectedPSN returns the PSN of the next request.
func (r *responder) expectedPSN() ib.PSN { return psnOf(r.next) }

// dropMessage ends the message in progress without a completion. Its receive request serves the
// next message.
func (r *responder) dropMessage() {
	r.msg.rewind()
	r.msg.view = mem.View{}
	r.msg.sgl.Reset()
	r.msg.cur = mem.Cursor{}
}

// rewind returns to the start of the held receive request's buffers.
func (m *message) rewind() {
	m.op = ib.OpInvalid
	m.done = 0
	m.cur.Seek(0)
}

// psnOf returns the PSN of an extended sequence number.
func psnOf(seq uint64) ib.PSN { return ib.PSN(seq & ib.PSNMask) }

// handleRequest takes one RC request that has passed the dispatcher's checks. execute then checks
// in the order of IBTA 9.7.4: PSN, opcode sequence, rights of the QP, resources, length, key. Any
// verdict other than pass ends in refuse.
func (r *responder) handleRequest(now int64, p *ib.Packet) {
	info := p.Opcode.Info()
	if d := p.PSN.Diff(psnOf(r.next)); d != 0 || r.fatal.active {
		r.outOfOrder(now, p, info, d)
		return
	}
	if p.Resv7 != 0 {
		r.learn(p)
	}
	if r.kept.n == 0 {
		r.execute(now, p, info)
		return
	}
	r.executeFrom(now, p, info)
}

// execute runs the request whose turn it is.
func (r *responder) execute(now int64, p *ib.Packet, info *ib.OpcodeInfo) {
	qp := r.qp
	// Only the PSN distinguishes the peer from a sender that forges its address.
	if qp.state == StateRTR || qp.watchFirst {
		qp.commEstablished()
	}
	if r.nak.latch != nakNone {
		r.repaired(now)
		r.stopNAK()
	}
	v := r.checkSequence(info)
	if v == pass {
		v = r.checkRights(p, info)
	}
	if v == pass {
		v = r.checkResources(p, info)
	}
	if v == pass {
		v = r.checkLength(p, info)
	}
	if v == pass {
		switch info.Op {
		case ib.OpSend:
			v = r.doSend(p, info)
		case ib.OpWrite:
			v = r.doWrite(p, info)
		case ib.OpRead:
			v = r.doRead(now, p)
		case ib.OpCompareSwap, ib.OpFetchAdd:
			v = r.doAtomic(p, info.Op)
		case ib.OpAtomicWrite:
			v = r.doAtomicWrite(p)
		case ib.OpFlush:
			v = r.doFlush(p)
		default:
			// A response opcode here would be the dispatcher's fault; a peer that causes it gets
			// NAK invalid request.
			v = badRequest
		}
	}
	if v != pass {
		r.refuse(now, p, v)
	} else if info.Op == ib.OpSend || info.Op == ib.OpWrite {
		r.executed(p, info)
	}
}

// outOfOrder handles a packet that is not the next one: a gap, a duplicate, or any packet after a
// fatal NAK. d is its distance from the expected PSN.
func (r *responder) outOfOrder(now int64, p *ib.Packet, info *ib.OpcodeInfo, d int) {
	seq := r.next + uint64(int64(d))
	switch {
	case r.fatal.active:
		r.afterFatal(now, p, info, seq)
	case d < 0:
		r.duplicate(now, p, info, seq)
	default:
		r.gap(now, p, d)
	}
}
