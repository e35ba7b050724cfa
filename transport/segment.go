package transport

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// sendOp describes an operation for sending.
type sendOp struct {
	opcodes  [4]ib.Opcode // indexed by ib.Position
	wc       WCOpcode
	local    bool // executed here
	split    bool // takes one PSN per MTU of its length
	waits    bool // waits for its own response; counts against MaxRdAtomic
	consumes bool // uses up a receive request of the peer
	// target is the right that the scatter/gather list must give: LocalWrite if the response is
	// written there.
	target mem.Access
}

var sendOps = [numWROpcodes]sendOp{
	WRSend: {
		opcodes: byPosition(ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLast, ib.RCSendOnly),
		wc:      WCSend, split: true, consumes: true,
	},
	WRSendImm: {
		opcodes: byPosition(ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLastImm, ib.RCSendOnlyImm),
		wc:      WCSend, split: true, consumes: true,
	},
	WRSendInv: {
		opcodes: byPosition(ib.RCSendMiddle, ib.RCSendFirst, ib.RCSendLastInv, ib.RCSendOnlyInv),
		wc:      WCSend, split: true, consumes: true,
	},
	WRWrite: {
		opcodes: byPosition(ib.RCWriteMiddle, ib.RCWriteFirst, ib.RCWriteLast, ib.RCWriteOnly),
		wc:      WCWrite, split: true,
	},
	WRWriteImm: {
		opcodes: byPosition(ib.RCWriteMiddle, ib.RCWriteFirst, ib.RCWriteLastImm, ib.RCWriteOnlyImm),
		wc:      WCWrite, split: true, consumes: true,
	},
	WRRead:        {opcodes: always(ib.RCReadRequest), wc: WCRead, split: true, waits: true, target: mem.LocalWrite},
	WRCompareSwap: {opcodes: always(ib.RCCompareSwap), wc: WCCompareSwap, waits: true, target: mem.LocalWrite},
	WRFetchAdd:    {opcodes: always(ib.RCFetchAdd), wc: WCFetchAdd, waits: true, target: mem.LocalWrite},
	WRAtomicWrite: {opcodes: always(ib.RCAtomicWrite), wc: WCAtomicWrite, waits: true},
	WRFlush:       {opcodes: always(ib.RCFlush), wc: WCFlush, waits: true},
	WRLocalInv:    {wc: WCLocalInv, local: true},
	WRBindMW:      {wc: WCBindMW, local: true},
}

func byPosition(middle, first, last, only ib.Opcode) (o [4]ib.Opcode) {
	o[ib.Middle], o[ib.First], o[ib.Last], o[ib.Only] = middle, first, last, only
	return o
}

func always(op ib.Opcode) [4]ib.Opcode { return [4]ib.Opcode{op, op, op, op} }

// putBTH writes a BTH with MigReq 1, the default P_Key and no congestion marks.
func putBTH(h *[ib.MaxHeaderBytes]byte, op ib.Opcode, solicited bool, pad int, dest ib.QPN, psn ib.PSN, ackReq bool) {
	const migReq = 1 << 22
	w := uint32(op)<<24 | migReq | uint32(pad)<<20 | uint32(ib.PKeyDefault)
	if solicited {
		w |= 1 << 31 >> 8
	}
	binary.BigEndian.PutUint32(h[0:], w)
	binary.BigEndian.PutUint32(h[4:], uint32(dest))
	w = uint32(psn)
	if ackReq {
		w |= 1 << 31
	}
	binary.BigEndian.PutUint32(h[8:], w)
}

// putRETH writes a RETH to h.
func putRETH(h []byte, va uint64, key uint32, n uint32) {
	_ = h[15]
	binary.BigEndian.PutUint64(h, va)
	binary.BigEndian.PutUint32(h[8:], key)
	binary.BigEndian.PutUint32(h[12:], n)
}

// build builds the packet of w at psn, and moves past it. If the payload's memory is gone, it fails
// the request and returns false.
func (sq *requester) build(now int64, w *sendWQE, tx *TxPacket) bool {
	qp := sq.qp
	op := &sendOps[w.op]
	tx.Path, tx.SrcQP = &qp.path, qp.num
	tx.NumFrags, tx.Pad, tx.PayloadLen = 0, 0, 0
	n := uint32(1) // PSNs that this packet takes
	ackReq := true
	if op.waits {
		if n = sq.buildWaiting(w, tx); n == 0 {
			sq.lost(now, w)
			return false
		}
		if w.op == WRRead {
			sq.chargeIn(w, int(n))
		}
	} else {
		last := sq.curPkt+1 == w.npkts
		ackReq = sq.wantsAck(w) || last && !sq.spares(now, w)
		if !sq.buildPayload(w, tx, last, 0) {
			sq.lost(now, w)
			return false
		}
		if ackReq {
			tx.Header[8] |= 0x80
		}
	}
	if sq.psn != sq.end || sq.introduces(ackReq) {
		sq.offer(tx)
	}
	if sq.cost != 0 {
		sq.chargeOut(now, sq.cost)
	}
	sq.moved(now, w, n, ackReq)
	return true
}

// buildPayload builds a packet of a SEND or WRITE. It adds class to the RC opcode.
func (sq *requester) buildPayload(w *sendWQE, tx *TxPacket, last bool, class ib.Opcode) bool {
	qp := sq.qp
	pos := ib.Middle
	off := sq.curPkt * uint32(qp.mtu)
	n := qp.mtu
	if off == 0 {
		pos = ib.First
	}
	if last {
		pos |= ib.Last
		n = int(w.length - off)
	}
	addr, length := w.addr, w.length
	if w.apart {
		pos, addr, length = ib.Only, addr+uint64(off), uint32(n)
	}
	if n != 0 {
		if !sq.payload(w, tx, off, n) {
			return false
		}
		tx.PayloadLen = uint16(n)
		tx.Pad = uint8(ib.PadFor(n))
	}
	code := sendOps[w.op].opcodes[pos] + class
	info := code.Info()
	putBTH(&tx.Header, code, last && w.flags&SendSolicited != 0 && sendOps[w.op].consumes,
		int(tx.Pad), qp.attr.DestQPN, sq.psn, false)
	h := ib.BTHBytes
	if info.Headers&ib.HasRETH != 0 {
		putRETH(tx.Header[h:h+ib.RETHBytes], addr, w.rkey, length)
		h += ib.RETHBytes
	}
	if info.Headers&(ib.HasImmDt|ib.HasIETH) != 0 {
		binary.BigEndian.PutUint32(tx.Header[h:], w.imm)
		h += ib.ImmDtBytes
	}
	tx.HeaderLen = uint8(h)
	return true
}

// buildWaiting builds the request of an operation that waits for its response, and returns how many
// PSNs it takes: for a READ, one per packet of the response; 0 if memory is gone. A READ beyond the
// window is split into several requests, because its responder does not know how much we can
// receive.
func (sq *requester) buildWaiting(w *sendWQE, tx *TxPacket) uint32 {
	qp := sq.qp
	op := &sendOps[w.op]
	putBTH(&tx.Header, op.opcodes[ib.Only], false, 0, qp.attr.DestQPN, sq.psn, true)
	n := uint32(1)
	h := tx.Header[ib.BTHBytes:]
	switch w.op {
	case WRRead:
		n = sq.readPart(w)
		sq.buildRead(w, tx, n)
	case WRCompareSwap, WRFetchAdd:
		binary.BigEndian.PutUint64(h, w.addr)
		binary.BigEndian.PutUint32(h[8:], w.rkey)
		add, compare := w.arg, uint64(0)
		if w.op == WRCompareSwap {
			add, compare = w.swap, w.arg
		}
		binary.BigEndian.PutUint64(h[12:], add)
		binary.BigEndian.PutUint64(h[20:], compare)
		tx.HeaderLen = ib.BTHBytes + ib.AtomicETHBytes
	case WRFlush:
		binary.BigEndian.PutUint32(h, uint32(w.arg))
		putRETH(h[ib.FETHBytes:], w.addr, w.rkey, w.length)
		tx.HeaderLen = ib.BTHBytes + ib.FETHBytes + ib.RETHBytes
	case WRAtomicWrite:
		putRETH(h, w.addr, w.rkey, w.length)
		tx.HeaderLen = ib.BTHBytes + ib.RETHBytes
		tx.PayloadLen = mem.AtomicBytes
		if w.value {
			b := tx.CopyBuffer(mem.AtomicBytes)
			binary.NativeEndian.PutUint64(b, w.swap)
			tx.Frags[0], tx.NumFrags = b, 1
		} else if !sq.payload(w, tx, 0, mem.AtomicBytes) {
			return 0
		}
	}
	last := sq.psn.Add(int(n) - 1)
	if sq.psn == sq.end {
		sq.reads.push(last)
		if w.op == WRRead {
			sq.credit.sent++
		}
	} else if sq.reads.next != sq.reads.tail {
		sq.reads.next++
	}
	return n
}

// buildRead builds the request for n packets of a READ.
func (sq *requester) buildRead(w *sendWQE, tx *TxPacket, n uint32) {
	qp := sq.qp
	putBTH(&tx.Header, ib.RCReadRequest, false, 0, qp.attr.DestQPN, sq.psn, true)
	off := sq.curPkt * uint32(qp.mtu)
	bytes := w.length - off
	if sq.curPkt+n < w.npkts {
		bytes = n * uint32(qp.mtu)
	}
	putRETH(tx.Header[ib.BTHBytes:], w.addr+uint64(off), w.rkey, bytes)
	tx.HeaderLen = ib.BTHBytes + ib.RETHBytes
}

// readPart returns how many packets the next request of a READ asks for: as many as the first time,
// or what window and room permit.
func (sq *requester) readPart(w *sendWQE) uint32 {
	if sq.psn != sq.end && sq.reads.next != sq.reads.tail {
		return uint32(span(sq.psn, *sq.reads.at(sq.reads.next))) + 1
	}
	if w.apart {
		return 1
	}
	return min(w.npkts-sq.curPkt, uint32(max(sq.room(w), 1)), uint32(sq.readRoom(w)))
}

// moved notes that the next n PSNs, all of w, were sent.
func (sq *requester) moved(now int64, w *sendWQE, n uint32, ackReq bool) {
	if sq.psn == sq.end {
		sq.end = sq.end.Add(int(n))
		if ackReq && sq.win.size > sq.win.near {
			if sq.trips == nil {
				sq.trips = &windowTrips{}
			}
			sq.trips.sent(windowTrip{psn: sq.psn, flight: sq.inFlight(), at: now})
		}
		if ackReq && sq.rtt.start(now, sq.psn) {
			sq.rtt.nextWindow = int32(sq.win.size)
			if sq.qp.delay != nil {
				sq.qp.delay.timed(now, sq)
			}
		}
	} else {
		e := sq.qp.e
		e.counters.RetransmittedPkts++
		sq.sentAgain++
		if e.cfg.Tracer != nil {
			e.cfg.Tracer.Trace(TraceEvent{Now: now, Kind: TraceRetransmit, QPN: sq.qp.num, PSN: sq.psn})
		}
	}
	sq.sinceAck++
	if ackReq {
		sq.hasAsked()
	}
	sq.psn = sq.psn.Add(int(n))
	sq.curPkt += n
	if sq.curPkt == w.npkts {
		sq.q.cur++
		sq.curPkt = 0
	}
}

// wantsAck reports whether a packet inside a message requests an ACK: at least every interval, some
// times per window and four times per room at the peer, and the last one that is admitted, which
// would otherwise wait for the timer.
func (sq *requester) wantsAck(w *sendWQE) bool {
	if sq.askNow || sq.cost != 0 && (sq.sinceAck+1)*sq.cost >= sq.flight.size/4 {
		return true
	}
	return sq.sinceAck+1 >= sq.askEvery(w) || sq.room(w) <= 1
}

// askEvery returns the most packets of w between two that request an ACK. A path that loses packets
// may also lose answers, a few in a row, so more are requested there; control by delay has enough.
func (sq *requester) askEvery(w *sendWQE) int {
	bound := sq.win.bound(w)
	n := min(sq.win.interval(w), max(bound>>sq.askShift(), 1))
	if sq.cause.lately.lost > 0 && !sq.win.ruled {
		n = min(n, max(bound>>lossyShift, 1))
	}
	return n
}

// askShift says how many answers are requested per window, at least: 1<<askShift. What an answer
// admits leaves at once, and its last packet, which requests the next one, waits for the others on
// the slowest cable. With two per window a long path is idle meanwhile. If losses have reduced the
// window, it is the path that limits.
func (sq *requester) askShift() int {
	if w := &sq.win; w.ruled || sq.rtt.least >= farNs && w.size >= w.near {
		return farShift
	}
	return nearShift
}

// lost fails a request whose memory was taken away while it was being sent.
func (sq *requester) lost(now int64, w *sendWQE) {
	sq.refuse(now, w, WCLocalProtErr, uint32(mem.FaultState))
}

// payloadCursor traverses the memory of one work request.
type payloadCursor struct {
	sgl    mem.SGL
	cur    mem.Cursor
	idx    uint32 // of the request in the send queue
	loaded bool
}

func (c *payloadCursor) drop() {
	if c.loaded {
		c.sgl.Reset()
		c.cur = mem.Cursor{}
		c.loaded = false
	}
}

// load checks the scatter/gather list of the request at index i, for access need.
func (c *payloadCursor) load(sq *requester, i uint32, need mem.Access) mem.Fault {
	w := sq.q.at(i)
	if w.nsge == 0 {
		return mem.FaultNone
	}
	qp := sq.qp
	c.loaded = false
	f := qp.e.cfg.Mem.Resolve(qp.pd, sq.q.sgesOf(i, &qp.caps)[:w.nsge], need, &c.sgl)
	if f != mem.FaultNone {
		return f
	}
	c.cur = c.sgl.Cursor()
	c.idx, c.loaded = i, true
	return mem.FaultNone
}

// seek moves to offset off of the request at index i. It checks the list again if another was used
// since, or if memory was taken away.
func (c *payloadCursor) seek(sq *requester, i uint32, need mem.Access, off uint32) mem.Fault {
	if !c.loaded || c.idx != i || !c.sgl.Valid() {
		if f := c.load(sq, i, need); f != mem.FaultNone {
			return f
		}
	}
	if c.cur.Pos() != uint64(off) && !c.cur.Seek(uint64(off)) {
		return mem.FaultBounds
	}
	return mem.FaultNone
}

// payload points tx at n bytes of the message of w, which is at cur, from offset off on.
func (sq *requester) payload(w *sendWQE, tx *TxPacket, off uint32, n int) bool {
	if w.inline {
		b := sq.q.inlineOf(sq.q.cur, &sq.qp.caps)
		tx.Frags[0], tx.NumFrags = b[off:int(off)+n], 1
		return true
	}
	c := &sq.tx
	if c.seek(sq, sq.q.cur, 0, off) != mem.FaultNone {
		return false
	}
	frags, got := c.cur.Gather(tx.Frags[:0], n)
	if got == n {
		tx.NumFrags = uint8(len(frags))
		return true
	}
	// More pieces than the descriptor holds: copy them into one.
	if !c.cur.Seek(uint64(off)) {
		return false
	}
	b := tx.CopyBuffer(n)
	if got, f := sq.qp.e.copyOut(&c.cur, b); f != mem.FaultNone || got != n {
		return false
	}
	tx.Frags[0], tx.NumFrags = b, 1
	return true
}
