package analyse

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// learnMTU takes the size of a full packet.
func (h *half) learnMTU(n int) {
	if _, ok := ib.MTUFromBytes(n); ok && h.c.mtu == 0 {
		h.c.mtu = n
	}
}

// span returns how many PSNs a request takes; 0 if that is not known.
func (h *half) span(p *pcap.Packet) int {
	if p.Opcode != ib.RCReadRequest {
		return 1
	}
	return spanOf(p.RETH.Len, h.c.mtu)
}

// spanOf is the number of responses to a READ.
func spanOf(n uint32, mtu int) int {
	switch {
	case n <= 256:
		return 1
	case mtu == 0:
		return 0
	}
	return int((int64(n) + int64(mtu) - 1) / int64(mtu))
}

// spanned learns the path MTU from the PSNs that a READ takes. One PSN tells nothing: a READ that
// fits into a packet fits into larger ones, too.
func (h *half) spanned(length uint32, psns int) {
	if psns <= 1 {
		return
	}
	for m := ib.MTU4096; m >= ib.MTU256; m-- {
		if spanOf(length, m.Bytes()) == psns {
			h.c.mtu = m.Bytes()
			return
		}
	}
}

// tighten learns the path MTU from the PSN after a READ.
func (h *half) tighten(psn ib.PSN) int {
	span := psn.Diff(h.next.Prev())
	h.spanned(h.loose, span)
	switch {
	case h.c.mtu != 0:
		h.widen(h.c.mtu)
	case span == 1 && h.looseOp != nil:
		h.looseOp.span = 1
	}
	h.loose, h.looseOp = 0, nil
	return psn.Diff(h.next)
}

// widen sets the responses of the last READ, once the MTU is known.
func (h *half) widen(mtu int) {
	o := h.looseOp
	h.loose, h.looseOp = 0, nil
	if o == nil {
		return
	}
	o.span = spanOf(o.readLen, mtu)
	if o.got >= o.span {
		h.complete(o, h.a.now)
	}
	o.end = o.first.Add(o.span)
	if o.end.Diff(h.next) > 0 {
		h.next = o.end
	}
}

// ends learns from the last response to a READ how many there are, and from that the path MTU: one
// response tells little of it.
func (h *half) ends(o *operation, last ib.PSN) {
	o.span = last.Diff(o.first) + 1
	o.end = last.Next()
	if o.span > 1 {
		h.spanned(o.readLen, o.span)
	}
	if h.looseOp == o {
		h.loose, h.looseOp = 0, nil
		if o.end.Diff(h.next) > 0 {
			h.next = o.end
		}
	}
}

// operate makes or continues the operation of a fresh request.
func (h *half) operate(p *pcap.Packet, info *ib.OpcodeInfo, span int) *operation {
	o := h.cur
	if info.Pos&ib.First != 0 || o == nil {
		h.nOps++
		o = &operation{
			number: h.nOps, kind: opName(p.Opcode), op: info.Op, first: p.PSN, end: p.PSN, frame: p.Frame, at: p.AtNs,
			partial: info.Pos&ib.First == 0,
		}
		switch {
		case info.Headers&ib.HasRETH != 0:
			o.rkey, o.va, o.readLen = p.RETH.RKey, p.RETH.VA, p.RETH.Len
		case info.Headers&ib.HasAtomicETH != 0:
			o.rkey, o.va = p.Atomic.RKey, p.Atomic.VA
		}
		h.cur = o
		if ownAnswer(info.Op) {
			o.read, o.span, o.asked, o.askedAt, o.askFrame, o.nextRsp = info.Op == ib.OpRead, span, 1,
				p.AtNs, p.Frame, p.PSN
			if info.Op == ib.OpRead {
				o.bytes = int64(p.RETH.Len)
			} else if isAtomic(info.Op) {
				o.bytes = ib.AtomicBytes
			}
			h.own.push(o, maxOwn)
		} else {
			h.msgs.push(o, maxOperations)
		}
	}
	o.end = h.next
	if !ownAnswer(info.Op) || info.Op == ib.OpAtomicWrite {
		o.bytes += int64(p.PayloadBytes)
	}
	if info.Pos&ib.Last != 0 {
		o.whole = true
		if k := opName(p.Opcode); !o.partial || o.kind == "" {
			o.kind = k // that it has an immediate only its last packet tells
		}
		h.cur = nil
		h.count(o.kind).Begun++
	}
	return o
}

func (h *half) count(kind string) *OpCount {
	if h.ops == nil {
		h.ops = map[string]*OpCount{}
	}
	c := h.ops[kind]
	if c == nil {
		c = &OpCount{}
		h.ops[kind] = c
	}
	return c
}

// complete counts an operation as done.
func (h *half) complete(o *operation, at int64) {
	if o.done {
		return
	}
	o.done = true
	h.keys.worked(o)
	c := h.count(o.kind)
	c.Completed++
	c.Bytes += o.bytes
	if !o.partial {
		h.lat.add(at - o.at)
	}
	h.lastDone = max(h.lastDone, at)
}

// unreliableDone completes a message of UC when its last packet was sent.
func (h *half) unreliableDone(o *operation, p *pcap.Packet) {
	if o == nil || !o.whole || o.done {
		return
	}
	o.done = true
	c := h.count(o.kind)
	c.Completed++
	c.Bytes += o.bytes
	h.lastDone = p.AtNs
	h.msgs.ops = h.msgs.ops[:0]
}

func opNumber(o *operation) int {
	if o == nil {
		return 0
	}
	return o.number
}
