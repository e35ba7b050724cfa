package transport

import "github.com/goroce/goroce/ib"

// requester is the send queue of a QP at work. Its files:
//
//	sendqueue.go, post_send.go  work requests
//	requester.go                which packet may go now
//	requester_room.go           whether there is room for it
//	segment.go                  building that packet
//	completer.go                handling responses
//	retry.go                    timeouts, NAKs, go-back-N
//	rnr.go                      waits for a receive request of the peer
//	rtt.go                      the round-trip time
//	missing*.go                 selective repeat
//	ahead.go                    responses that come before their turn
//	probe.go                    tail loss probes
//	patient.go                  requests that need no answer soon
//	window.go                   how much may be unacknowledged
//	stride.go                   how fast a large window leaves
//	windowcut.go                what the last loss showed of others, and of the path
//	windowtrips.go              whether a large window has room to grow
//	localops.go                 LOCAL_INV and BIND_MW
//	send_unreliable.go          UC and UD
//
// Packets in [una, end) have been sent at least once and are not acknowledged; psn, in [una, end],
// is the next to send: less than end after going back. Position alone finds requests: the one at
// head contains una whenever una != end, and the one at cur contains psn.
type requester struct {
	qp *QP

	curPkt uint32 // sent packets of the request at cur
	psn    ib.PSN
	una    ib.PSN
	end    ib.PSN
	// longEnd is behind the last packet of a long message, unless it is not in [una, end).
	longEnd ib.PSN

	flight *flight // to the peer; nil: not bounded
	out    int     // units charged to flight
	in     int     // units charged to Engine.reading
	cost   int     // price of the next packet

	q sendQueue

	retry    retryState
	probe    probeState
	win      window
	patience patience
	sinceAck int // packets since the last AckReq
	rtt      rttEstimate
	cause    lossCause

	miss         *missing // what is known to be missing; nil until something was
	kept         reorder  // responses that came before their turn
	peerKeeps    bool     // the peer knows selective repeat
	offered      bool     // we told it that we do, and nothing has come since
	asked        bool     // a first transmission has offered it, without need
	offerRefused bool     // no answer came after that: we say it no more
	refusals     uint8    // how often an answer came then, up to maxRefusals
	inTurn       bool     // kept responses are being handled

	inRuns bool // the last response to a READ came in a run
	runs   bool // a response to a READ has come in a run
	left   int  // packets in flight at the last transmission; for selective repeat
	stride stride
	trips  *windowTrips // none before the window is large
	askNow bool         // the next packet requests an answer

	sentAgain  uint32        // packets since RTS
	tx         payloadCursor // payload of the request at cur
	reads      readRing
	credit     creditState
	peerCounts bool          // the peer counts messages as we do: see believe.go
	rx         payloadCursor // destination of the response to the request at head
}

// span returns the number of PSNs from a up to b.
func span(a, b ib.PSN) int { return int(uint32(b-a) & ib.PSNMask) }

// readRing records the last PSN of every READ, atomic, ATOMIC WRITE and FLUSH request that waits
// for its response, oldest first. The connection's depth bounds its length. A resent request must
// end where it did the first time: the responder treats it as a duplicate, which never extends
// beyond the original (wire format 5.6).
type readRing struct {
	last []ib.PSN // length is a power of two, or 0
	head uint32
	next uint32 // next to be sent again; tail if none
	tail uint32
}

func (r *readRing) len() int { return int(r.tail - r.head) }

func (r *readRing) at(i uint32) *ib.PSN { return &r.last[i&uint32(len(r.last)-1)] }

// push records a request sent for the first time.
func (r *readRing) push(last ib.PSN) {
	if r.len() == len(r.last) {
		n := *r
		n.last = make([]ib.PSN, max(2*len(r.last), 4))
		for i := r.head; i != r.tail; i++ {
			*n.at(i) = *r.at(i)
		}
		*r = n
	}
	*r.at(r.tail) = last
	r.tail++
	r.next = r.tail
}

// answered drops the requests that end before una.
func (r *readRing) answered(una ib.PSN) {
	for r.head != r.tail && r.at(r.head).Before(una) {
		if r.next == r.head {
			r.next++
		}
		r.head++
	}
}

func (r *readRing) clear() { r.head, r.next, r.tail = 0, 0, 0 }

// init ties the requester to its QP, once, when the QP is created.
func (sq *requester) init(qp *QP) { sq.qp = qp }

// start begins a connection, at the transition from RTR to RTS.
func (sq *requester) start(now int64) {
	sq.psn = sq.qp.attr.SQPSN & ib.PSNMask
	sq.una, sq.end, sq.longEnd = sq.psn, sq.psn, sq.psn
	sq.reads.clear()
	sq.curPkt, sq.sinceAck, sq.sentAgain = 0, 0, 0
	sq.runs = false
	sq.trips.forget()
	sq.patience = patience{}
	sq.credit, sq.peerCounts = creditState{}, false
	sq.peerKeeps, sq.offered, sq.asked, sq.offerRefused, sq.refusals = false, false, false, false, 0
	sq.unwatch()
	sq.kept.clear(sq.qp.e)
	sq.win = newWindow(sq.qp)
	sq.stopProbe()
	sq.retry = retryState{tooLong: sq.qp.path.TooLong, unreachable: sq.qp.path.Unreachable}
	sq.qp.e.join(sq.qp)
	sq.rtt, sq.probe = rttEstimate{}, probeState{}
	sq.probe.configure(sq.qp, &sq.rtt) // from what is known of the peer
	sq.retry.refill(&sq.qp.attr)
	sq.tx.drop()
	sq.rx.drop()
}

// enterSQD finishes what was begun and begins nothing new, from RTS to SQD.
func (sq *requester) enterSQD(now int64) {
	sq.probe.due = sq.probe.due || sq.unasked()
	sq.qp.markReady()
	sq.checkDrained(now)
}

// resume continues after SQD or SQE.
func (sq *requester) resume(now int64) {
	sq.attrsChanged(now)
	sq.qp.markReady()
}

// attrsChanged applies attributes that Modify has changed.
func (sq *requester) attrsChanged(now int64) {
	if sq.qp.state < StateRTS {
		return
	}
	sq.win.limit(sq.qp)
	sq.probe.configure(sq.qp, &sq.rtt)
	if f := sq.flight; f != nil && f.to != sq.qp.path.Dst {
		sq.leaveRoom()
		sq.qp.e.part(sq.qp)
		sq.qp.e.join(sq.qp)
	}
	if sq.qp.attr.Timeout == 0 {
		sq.leaveRoom()
	}
	sq.qp.markReady()
}

// flush completes all requests with WCFlushErr, in order, on the way to ERR or SQE.
func (sq *requester) flush(now int64) {
	q := &sq.q
	for q.head != q.tail {
		sq.report(now, q.at(q.head), WCFlushErr, 0) // a full CQ reports itself
		q.head++
	}
	if sq.una.After(sq.psn) {
		sq.psn = sq.una // it had gone back, and then a run or single ACKs passed psn
	}
	sq.forget()
}

// reset drops everything, on the way to RESET.
func (sq *requester) reset() {
	sq.q.head = sq.q.tail
	sq.forget()
	sq.qp.e.part(sq.qp)
	sq.q = sendQueue{}
	sq.reads = readRing{}
	sq.miss = nil
	sq.trips = nil
	sq.tx, sq.rx = payloadCursor{}, payloadCursor{}
}

// forget ends everything in progress once the queue is empty.
func (sq *requester) forget() {
	q := &sq.q
	clear(q.binds) // they keep windows and regions alive
	q.cur = q.head
	sq.curPkt = 0
	sq.una, sq.end = sq.psn, sq.psn
	sq.reads.clear()
	sq.retry.rnrWait = false
	sq.unwatch()
	sq.kept.clear(sq.qp.e)
	sq.qp.stopTimer(timerAck)
	sq.qp.stopTimer(timerRNR)
	sq.stopProbe()
	sq.leaveRoom()
	sq.tx.drop()
	sq.rx.drop()
}

// nextPSN returns the PSN of the next request packet.
func (sq *requester) nextPSN() ib.PSN { return sq.psn }

// checkDrained ends the draining of SQD when everything begun is complete.
func (sq *requester) checkDrained(now int64) {
	qp := sq.qp
	if qp.state != StateSQD || !qp.sqDraining || sq.una != sq.end {
		return
	}
	if q := &sq.q; q.head != q.tail && q.at(q.head).state != wqePosted {
		return
	}
	qp.sqDrained(now)
}

// idle reports whether sendRequests has nothing to do.
func (sq *requester) idle() bool {
	return sq.q.cur == sq.q.tail && !sq.probe.due && sq.qp.share.from == nil && !sq.dueAgain()
}

// sendRequests sends what may be sent now, up to len(batch) packets, and returns how many.
func (sq *requester) sendRequests(now int64, batch []TxPacket) int {
	qp, n := sq.qp, 0
	if sq.q.cur == sq.q.tail && !sq.probe.due && !sq.dueAgain() || qp.state < StateRTS || qp.pacingHoldsRequests() {
		qp.share.endTurn()
		return 0
	}
	if qp.typ != ib.RC {
		return sq.sendUnreliable(now, batch)
	}
	if sq.probe.due && len(batch) > 0 {
		n = sq.sendProbe(now, batch)
	}
	if sq.dueAgain() && !sq.retry.rnrWait {
		n += sq.sendMissing(now, batch[n:])
	}
	bounded := qp.e.bounded()
	if sq.retry.recovering && sq.psn == sq.una {
		sq.retry.since = now
	}
	for n < len(batch) {
		w := sq.admissible(now)
		if w == nil || bounded && !sq.hasRoom(w, n == 0) {
			break
		}
		if !sq.build(now, w, &batch[n]) {
			break
		}
		n++
		if w.npkts > 3 && n < len(batch) {
			n += sq.repeat(now, w, batch[n-1:])
		}
		if w.length >= longBytes {
			sq.longEnd = sq.psn
		}
	}
	if n > 0 {
		// At a low rate the packet that requests an answer may leave long after the first, so the
		// peer's time counts from the last.
		sq.armTimers(now, qp.paceLimited())
		sq.win.used = max(sq.win.used, span(sq.una, sq.end))
		if !qp.e.cfg.Tuning.GoBackN {
			sq.left = sq.inFlight()
		}
	}
	qp.share.endTurn()
	return n
}

// admissible returns the request whose next packet may be sent now, or nil. It begins requests and
// executes local ones on the way.
func (sq *requester) admissible(now int64) *sendWQE {
	q := &sq.q
	for q.cur != q.tail && !sq.retry.rnrWait {
		w := q.at(q.cur)
		switch w.state {
		case wqeBegun:
		case wqePosted:
			if !sq.begin(now, w) {
				return nil
			}
			if w.state == wqePosted || w.state == wqeRefused {
				continue
			}
		case wqeRefused:
			return nil
		}
		if w.npkts == 0 { // executed
			q.cur++
			if q.head == q.cur-1 {
				sq.retire(now)
			}
			continue
		}
		if !sq.fits(w) || sq.retry.spreadNs != 0 && sq.spreads(now) || sq.strides(now) {
			return nil
		}
		return w
	}
	return nil
}

// begin checks a request sent for the first time and assigns its PSNs. It returns false if the
// request must wait or has failed.
func (sq *requester) begin(now int64, w *sendWQE) bool {
	qp, q := sq.qp, &sq.q
	if qp.state != StateRTS {
		return false // SQD: nothing new
	}
	if w.flags&SendFence != 0 && sq.reads.len() != 0 {
		return false // IBTA 10.8.3.3
	}
	op := &sendOps[w.op]
	if op.local {
		return sq.doLocal(now, w)
	}
	if op.consumes && sq.una != sq.end && sq.credit.lacks(sq.credit.sent) {
		return false
	}
	if op.waits && qp.attr.MaxRdAtomic == 0 {
		return sq.refuse(now, w, WCLocalQPOpErr, 0)
	}
	if f := sq.tx.load(sq, q.cur, op.target); f != 0 {
		return sq.refuse(now, w, WCLocalProtErr, uint32(f))
	}
	w.npkts = 1
	if op.split {
		w.npkts = packetsFor(w.length, qp.mtu)
	}
	w.psn = sq.psn
	w.state = wqeBegun
	sq.curPkt = 0
	if !op.waits { // a READ's data comes on the peer's path
		qp.carry(w.length, sq.una == sq.end)
	}
	w.number = sq.credit.sent
	w.apart = sq.apart(w)
	switch {
	case w.op == WRRead: // each of its requests counts
	case w.apart:
		sq.credit.sent += ib.MSN(w.npkts)
	default:
		sq.credit.sent++
	}
	return true
}

// apart reports whether a WRITE leaves as one WRITE ONLY message per packet, or a READ as one
// request per packet. Only packets of equal length share a datagram. But the FIRST packet of a
// WRITE is longer than the others by the RETH, and FIRST and LAST responses to a READ by the AETH,
// so a short message would take two datagrams and never share one with the next. ONLY packets of
// many messages do share. A program might have posted the same to the peer: data lands in the same
// order, but a packet that exceeds the region fails only after those before it.
//
// A WRITE then counts as several messages; with credits, which limit the messages that the peer
// permits, it stays whole. A READ takes several of the connection's depth, which must be large, and
// only pays off if the peer's responses come in runs.
func (sq *requester) apart(w *sendWQE) bool {
	if w.npkts <= 1 || w.npkts > maxApart || sq.qp.e.cfg.Tuning.WholeMessages {
		return false
	}
	switch w.op {
	case WRWrite:
		return sq.qp.e.cfg.GSO && !sq.credit.used
	case WRRead:
		return sq.runs && int(w.npkts)*apartDepth <= int(sq.qp.attr.MaxRdAtomic)
	}
	return false
}

// refuse fails a request that cannot be executed. Its completion waits for those of all earlier
// requests (IBTA 10.8.5).
func (sq *requester) refuse(now int64, w *sendWQE, s WCStatus, vendor uint32) bool {
	w.state, w.status, w.vendor = wqeRefused, s, vendor
	sq.failRefused(now)
	return false
}

// failRefused ends the queue if the oldest request was refused. It reports whether it was.
func (sq *requester) failRefused(now int64) bool {
	q := &sq.q
	if q.head == q.tail {
		return false
	}
	w := q.at(q.head)
	if w.state != wqeRefused {
		return false
	}
	sq.failHead(now, w.status, w.vendor)
	return true
}

// retire completes the request at head, and executed local operations behind it.
func (sq *requester) retire(now int64) {
	sq.retireOne(now)
	for q := &sq.q; q.head != q.tail && q.at(q.head).state == wqeLocal; {
		if q.cur == q.head {
			q.cur++ // executed before going back: do not hand it out again
		}
		sq.retireOne(now)
	}
}

func (sq *requester) retireOne(now int64) {
	qp, w := sq.qp, sq.q.at(sq.q.head)
	qp.e.counters.RDMASends++
	ok := true
	if sq.signaled(w) {
		ok = sq.report(now, w, WCSuccess, 0)
	}
	sq.q.head++
	if !ok {
		qp.fatal(now, EventQPFatal)
	}
}

// report pushes the completion of w.
func (sq *requester) report(now int64, w *sendWQE, s WCStatus, vendor uint32) bool {
	qp := sq.qp
	if t := qp.e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceCompletion, QPN: qp.num, PSN: w.psn, Detail: s.String()})
	}
	return qp.sendCQ.push(qp.e, &WC{
		ID: w.id, Status: s, Opcode: sendOps[w.op].wc, QPN: qp.num,
		ByteLen: w.length, VendorErr: vendor,
	}, false)
}

// failHead completes the oldest request with an error and ends the queue.
func (sq *requester) failHead(now int64, s WCStatus, vendor uint32) {
	q, qp := &sq.q, sq.qp
	if q.head != q.tail {
		sq.report(now, q.at(q.head), s, vendor)
		q.head++
	}
	qp.sqError(now)
}
