package transport

import (
	"encoding/binary"
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// wrKind describes an operation for posting.
type wrKind struct {
	rc, uc, ud bool // transports that support it
	payload    bool // sends the bytes of its scatter/gather list
	exact      int  // required length of the list in bytes, if not 0
	local      bool // executed here: sends nothing
}

var wrKinds = [numWROpcodes]wrKind{
	WRSend:        {rc: true, uc: true, ud: true, payload: true},
	WRSendImm:     {rc: true, uc: true, ud: true, payload: true},
	WRSendInv:     {rc: true, payload: true},
	WRWrite:       {rc: true, uc: true, payload: true},
	WRWriteImm:    {rc: true, uc: true, payload: true},
	WRRead:        {rc: true},
	WRCompareSwap: {rc: true, exact: mem.AtomicBytes},
	WRFetchAdd:    {rc: true, exact: mem.AtomicBytes},
	WRAtomicWrite: {rc: true, payload: true, exact: mem.AtomicBytes},
	WRFlush:       {rc: true},
	WRLocalInv:    {rc: true, uc: true, local: true},
	WRBindMW:      {rc: true, uc: true, local: true},
}

// on reports whether QPs of type t support the operation.
func (k *wrKind) on(t ib.Transport) bool {
	switch t {
	case ib.RC:
		return k.rc
	case ib.UC:
		return k.uc
	}
	return k.ud
}

// sendFlags are the defined flags.
const sendFlags = SendFence | SendSignaled | SendSolicited | SendInline | SendPatient

// PostSend queues a send work request. On an error nothing is queued: ErrInvalidState before RTS,
// ErrQueueFull, ErrInvalidOpcode, ErrTooManySGE, ErrInlineTooLarge, ErrMessageTooLong, or an
// [ArgError] that names the field. Keys and addresses are checked at execution, except for inline
// data, and their errors appear in the completion. In SQE and ERR the request is flushed at once.
func (qp *QP) PostSend(now int64, wr *SendWR) error {
	sq := &qp.sq
	qp.e.now = now
	if qp.state < StateRTS {
		if qp.gone {
			return &EngineError{Op: "post send", Err: ErrDestroyed}
		}
		return opErr("post send", ErrInvalidState, "%v", qp.state)
	}
	if sq.q.len() >= qp.caps.MaxSendWR {
		return &EngineError{Op: "post send", Err: ErrQueueFull}
	}
	if wr == nil {
		return errNilRequest("post send")
	}
	length, err := qp.checkSend(wr)
	if err != nil {
		return err
	}
	q := &sq.q
	if q.len() == len(q.slots) {
		q.grow(&qp.caps)
	}
	w := q.at(q.tail)
	*w = sendWQE{
		id: wr.ID, op: wr.Opcode, flags: wr.Flags, length: length,
		addr: wr.RemoteAddr, rkey: uint32(wr.RKey), imm: wr.Imm,
		arg: wr.CompareAdd, swap: wr.Swap,
	}
	switch wr.Opcode {
	case WRSendInv, WRLocalInv:
		w.imm = uint32(wr.InvalidateKey)
	case WRFlush:
		w.arg = uint64(wr.FlushType)
	case WRBindMW:
		if q.binds == nil {
			q.binds = make([]BindMW, len(q.slots))
		}
		*q.bindOf(q.tail) = wr.Bind
	}
	if qp.typ == ib.UD {
		w.ah, w.dest, w.rkey = wr.AH, uint32(wr.RemoteQPN&ib.QPNMask), uint32(wr.RemoteQKey)
	}
	if err := sq.storePayload(w, wr); err != nil {
		return err
	}
	q.tail++
	if qp.state == StateRTS {
		qp.markReady()
	} else if qp.state != StateSQD {
		sq.flush(now)
	}
	return nil
}

// SendRoom returns how many more requests PostSend accepts now.
func (qp *QP) SendRoom() int {
	if qp.state < StateRTS || qp.gone {
		return 0
	}
	return max(qp.caps.MaxSendWR-qp.sq.q.len(), 0)
}

// storePayload stores what wr sends, or the list of memory for its result.
func (sq *requester) storePayload(w *sendWQE, wr *SendWR) error {
	q, qp := &sq.q, sq.qp
	switch k := &wrKinds[wr.Opcode]; {
	case k.local || wr.Opcode == WRFlush:
	case wr.Opcode == WRAtomicWrite && len(wr.SGList) == 0 && wr.Flags&SendInline == 0:
		w.swap, w.value = binary.NativeEndian.Uint64(wr.AtomicWriteVal[:]), true
	case wr.Flags&SendInline != 0:
		if q.inline == nil {
			q.inline = make([]byte, len(q.slots)*qp.caps.MaxInline)
		}
		w.inline = true
		return sq.copyInline(q.inlineOf(q.tail, &qp.caps), wr)
	default:
		w.nsge = uint8(copy(q.sgesOf(q.tail, &qp.caps), wr.SGList))
	}
	return nil
}

// copyInline copies the payload of wr to dst, which is large enough.
func (sq *requester) copyInline(dst []byte, wr *SendWR) error {
	if wr.Inline != nil {
		copy(dst, wr.Inline)
		return nil
	}
	qp := sq.qp
	for i := range wr.SGList {
		e := &wr.SGList[i]
		b, f := qp.e.cfg.Mem.Local(qp.pd, e.LKey, e.Addr, e.Length, 0)
		if f != mem.FaultNone {
			return opErr("post send", f, "inline element %d", i)
		}
		n, f := qp.e.copyGuarded(dst, b)
		if f != mem.FaultNone {
			return fmt.Errorf("post send: inline element %d: %w", i, f)
		}
		dst = dst[n:]
	}
	return nil
}

// checkSend validates everything in wr that does not depend on memory, and returns the message
// length.
func (qp *QP) checkSend(wr *SendWR) (uint32, error) {
	if wr.Opcode >= numWROpcodes || !wrKinds[wr.Opcode].on(qp.typ) {
		return 0, opErr("post send", ErrInvalidOpcode, "%v on a %v QP", wr.Opcode, qp.typ)
	}
	k := &wrKinds[wr.Opcode]
	if wr.Flags&^sendFlags != 0 {
		return 0, argError("post send", "send_flags", fmt.Sprintf("unknown flags %#x", uint8(wr.Flags&^sendFlags)))
	}
	if k.local {
		return 0, nil
	}
	if wr.Opcode == WRFlush {
		return wr.FlushLength, checkFlush(wr)
	}
	if wr.Opcode == WRAtomicWrite && len(wr.SGList) == 0 && wr.Flags&SendInline == 0 {
		return mem.AtomicBytes, nil
	}
	var n uint64
	if wr.Flags&SendInline != 0 && wr.Inline != nil {
		n = uint64(len(wr.Inline))
	} else {
		if len(wr.SGList) > qp.caps.MaxSendSGE {
			return 0, opErr("post send", ErrTooManySGE, "%d, at most %d", len(wr.SGList), qp.caps.MaxSendSGE)
		}
		for i := range wr.SGList {
			n += uint64(wr.SGList[i].Length)
		}
	}
	if wr.Flags&SendInline != 0 {
		if !k.payload {
			return 0, argError("post send", "send_flags", fmt.Sprintf("%v has no payload to inline", wr.Opcode))
		}
		if n > uint64(qp.caps.MaxInline) {
			return 0, opErr("post send", ErrInlineTooLarge, "%d bytes, at most %d", n, qp.caps.MaxInline)
		}
	}
	if k.exact != 0 && n != uint64(k.exact) {
		return 0, argError("post send", "sg_list", fmt.Sprintf("%v takes %d bytes, not %d", wr.Opcode, k.exact, n))
	}
	if qp.typ == ib.UD {
		if err := qp.checkSendUD(wr, n); err != nil {
			return 0, err
		}
	}
	if n > MaxMessage {
		return 0, opErr("post send", ErrMessageTooLong, "%d bytes, at most %d", n, uint64(MaxMessage))
	}
	return uint32(n), nil
}

// checkFlush validates a FLUSH (annex A19).
func checkFlush(wr *SendWR) error {
	const placement = ib.FlushGlobalVisibility | ib.FlushPersistence
	if wr.FlushType&^(placement|ib.FlushMR) != 0 || wr.FlushType&placement == 0 {
		return argError("post send", "flush.type", fmt.Sprintf("%#x", uint32(wr.FlushType)))
	}
	return nil
}

// checkSendUD validates the destination and length of a datagram.
func (qp *QP) checkSendUD(wr *SendWR, n uint64) error {
	switch {
	case wr.AH == nil:
		return argError("post send", "ud.ah", "missing")
	case wr.AH.gone:
		return opErr("post send", ErrDestroyed, "address handle")
	case wr.AH.pd != qp.pd:
		return argError("post send", "ud.ah", "of another protection domain")
	case wr.AH.e != qp.e:
		return argError("post send", "ud.ah", "of another engine")
	case wr.RemoteQPN > ib.QPNMask:
		return argError("post send", "ud.remote_qpn", wr.RemoteQPN.String())
	case n > uint64(min(qp.mtu, qp.e.mtu.Bytes())):
		return opErr("post send", ErrMessageTooLong, "%d bytes in one datagram, at most %d", n,
			min(qp.mtu, qp.e.mtu.Bytes()))
	}
	return nil
}

// packetsFor returns how many packets carry n bytes; an empty message takes one.
func packetsFor(n uint32, mtu int) uint32 {
	if n == 0 {
		return 1
	}
	return uint32((uint64(n) + uint64(mtu) - 1) / uint64(mtu))
}
