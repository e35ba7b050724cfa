package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// responder is the receive side of a QP: it executes the requests of the peer
// and owes it answers. Its parts:
//
//	responder.go         the parent: one request through the chain of checks
//	responder_check.go   sequence, rights, resources, lengths
//	responder_exec.go    SEND and WRITE
//	responder_ops.go     READ, atomics, ATOMIC WRITE, FLUSH
//	responder_answer.go  the queue of answers, ACK coalescing, credits
//	responder_ahead.go   requests that come before their turn
//	responder_replay.go  duplicates and what is remembered for them
//	responder_nak.go     NAK policy, errors, linger
//	responder_tx.go      packets out of answers
//	uc.go, ud.go         the unreliable transports' use of the same state
//
// Invariants:
//
//   - Requests are executed in PSN order, each once. A packet changes memory
//     only after every check that concerns it has passed.
//   - Answers leave in the order of the PSNs that they answer; answers to
//     duplicates queue behind. An ACK never covers the PSN of a READ, atomic,
//     ATOMIC WRITE or FLUSH: a requester that got one in the place of the lost
//     answer would take the operation for done, without its data (rxe does).
//   - next-1 is the newest PSN executed; base the first one ever expected.
//     PSNs are extended to 64 bits here, so that nothing remembered can be
//     mistaken for something that is 2^24 packets younger.
type responder struct {
	qp   *QP
	next uint64 // sequence number expected; its low 24 bits are the PSN
	msn  ib.MSN // messages completed
	cnp  cnpState
	nak  nakState
	out  answerQueue
	msg  message

	told     bool    // the peer knows selective repeat
	kept     reorder // requests that came before their turn
	repairNs int64   // from a sequence NAK to what it asks for; 0 if that is not known

	fatal   fatalState
	base    uint64 // sequence number of the first packet of this connection
	store   replayStore
	readAt  int64  // when a READ that was repeated too often gets another packet
	tooLong uint64 // Path.TooLong when the newest READ was taken
	wc      WC     // the completion being made
	sl      uint8  // UD: WC.SL of the datagram at hand
}

// message is the SEND or WRITE in progress: between its first packet and its
// last.
type message struct {
	op     ib.Operation // OpSend or OpWrite; OpInvalid between messages
	done   uint32       // bytes placed
	length uint32       // WRITE: bytes announced in the RETH
	view   mem.View     // WRITE: where they go
	recv   *recvWQE     // receive request taken for this message or the next
	sgl    mem.SGL      // its buffers
	cur    mem.Cursor   // position in them
}

// seqBase keeps extended sequence numbers away from 0, so that those of
// duplicates do not wrap below it.
const seqBase = 1 << 32

// verdict is the outcome of one check of a request.
type verdict uint8

const (
	pass       verdict = iota
	notReady           // no receive request: RNR NAK
	badRequest         // NAK invalid request
	badAccess          // NAK remote access error
	badLength          // SEND longer than the receive buffers: NAK invalid request
	badBuffer          // a receive request with bad buffers: NAK remote operational error
	badQueue           // the completion could not be delivered: NAK remote operational error
)

// init ties the responder to its QP; once, when the QP is created.
func (r *responder) init(qp *QP) { r.qp = qp }

// start begins a connection: at the transition from INIT to RTR. The first
// packet has the PSN of attribute rq_psn.
func (r *responder) start(now int64) {
	r.next = seqBase + uint64(r.qp.attr.RQPSN&ib.PSNMask)
	r.base = r.next
	r.msn = 0
	r.dropMessage()
	r.store.init(r.qp.attr.MaxDestRdAtomic)
	r.out.reset()
	r.nak = nakState{}
	r.fatal = fatalState{}
	r.told, r.repairNs = false, 0
	r.kept.clear(r.qp.e)
}

// reset forgets everything: at the transition to RESET and when the QP is
// destroyed, after its timers were stopped and its receive request recycled.
func (r *responder) reset() {
	r.kept.clear(r.qp.e)
	*r = responder{qp: r.qp, msg: message{sgl: r.msg.sgl}}
	r.msg.sgl.Reset()
}

// toErr stops the responder: at the transition to ERR, before the receive queue
// is flushed. If the reason was a fatal NAK of its own, what is owed up to that
// NAK is still sent and the NAK is repeated until the linger ends; otherwise the
// QP falls silent.
func (r *responder) toErr() {
	r.dropMessage()
	r.msg.recv = nil // qp.curRecv, which the flush completes
	r.cnp.due = false
	r.kept.clear(r.qp.e)
	if !r.fatal.active {
		r.out.reset()
		r.stopNAK()
	}
}

// expectedPSN returns the PSN of the next request.
func (r *responder) expectedPSN() ib.PSN { return psnOf(r.next) }

// dropMessage ends the message in progress without a completion. Its receive
// request stays for the next message.
func (r *responder) dropMessage() {
	r.msg.rewind()
	r.msg.view = mem.View{}
	r.msg.sgl.Reset()
	r.msg.cur = mem.Cursor{}
}

// rewind starts the buffers of the held receive request over.
func (m *message) rewind() {
	m.op = ib.OpInvalid
	m.done = 0
	m.cur.Seek(0)
}

// psnOf returns the PSN of an extended sequence number.
func psnOf(seq uint64) ib.PSN { return ib.PSN(seq & ib.PSNMask) }

// handleRequest takes one RC request that has passed the checks of the
// dispatcher. All branching of the responder is here, in the order of IBTA
// 9.7.4: PSN, opcode sequence, rights of the QP, resources, length, key; a
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

// execute takes the request whose turn it is.
func (r *responder) execute(now int64, p *ib.Packet, info *ib.OpcodeInfo) {
	qp := r.qp
	// Only the PSN tells the peer from anybody who can forge its address.
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
		v = r.checkResources(info)
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
			v = r.doRead(p)
		case ib.OpCompareSwap, ib.OpFetchAdd:
			v = r.doAtomic(p, info.Op)
		case ib.OpAtomicWrite:
			v = r.doAtomicWrite(p)
		case ib.OpFlush:
			v = r.doFlush(p)
		default:
			// A response opcode here would be a fault of the dispatcher; a peer
			// that meets it is told that the request is invalid.
			v = badRequest
		}
	}
	if v != pass {
		r.refuse(now, p, v)
	} else if info.Op == ib.OpSend || info.Op == ib.OpWrite {
		r.executed(p, info)
	}
}

// outOfOrder handles a packet that is not the next one: a gap, a duplicate, or
// anything at all after a fatal NAK. d is its distance from the expected PSN.
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
