package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// readPackets returns how many packets, and PSNs, the answer to a READ of n bytes takes.
func (r *responder) readPackets(n uint32) uint64 {
	if n == 0 {
		return 1
	}
	mtu := uint64(r.qp.mtu)
	return (uint64(n) + mtu - 1) / mtu
}

// doRead checks a READ and queues its answer. Data is read from memory as each packet is sent, so
// it may show later writes. IBTA 9.5 allows that; a requester that needs order uses a fence.
func (r *responder) doRead(now int64, p *ib.Packet) verdict {
	qp := r.qp
	h := &p.RETH
	if _, f := qp.e.cfg.Mem.Remote(qp.pd, qp.num, h.RKey, h.VA, h.Len, mem.RemoteRead); f != mem.FaultNone {
		r.wc.VendorErr = uint32(f)
		return badAccess
	}
	r.tooLong = qp.path.TooLong
	qp.carry(h.Len, qp.sq.una == qp.sq.end && r.out.len() == 0)
	r.answerNew(&replay{op: ib.OpRead, rkey: h.RKey, va: h.VA, length: h.Len, at: now}, r.readPackets(h.Len))
	return pass
}

// doAtomic executes CMP & SWAP or FETCH & ADD.
func (r *responder) doAtomic(p *ib.Packet, op ib.Operation) verdict {
	h := &p.Atomic
	if h.VA%mem.AtomicBytes != 0 {
		return badRequest // IBTA 9.4.5: misaligned
	}
	qp := r.qp
	view, f := qp.e.cfg.Mem.Remote(qp.pd, qp.num, h.RKey, h.VA, mem.AtomicBytes, mem.RemoteAtomic)
	var orig uint64
	if f == mem.FaultNone {
		if op == ib.OpCompareSwap {
			orig, f = view.CompareSwap(h.Compare, h.SwapAdd)
		} else {
			orig, f = view.FetchAdd(h.SwapAdd)
		}
	}
	if f != mem.FaultNone {
		return r.atomicFault(f)
	}
	r.answerNew(&replay{op: op, rkey: h.RKey, va: h.VA, length: mem.AtomicBytes, value: orig}, 1)
	return pass
}

// doAtomicWrite stores 8 bytes atomically.
func (r *responder) doAtomicWrite(p *ib.Packet) verdict {
	h := &p.RETH
	if h.Len != mem.AtomicBytes || h.VA%mem.AtomicBytes != 0 {
		return badRequest
	}
	qp := r.qp
	view, f := qp.e.cfg.Mem.Remote(qp.pd, qp.num, h.RKey, h.VA, h.Len, mem.RemoteWrite)
	if f == mem.FaultNone {
		f = view.Store(p.Payload)
	}
	if f != mem.FaultNone {
		return r.atomicFault(f)
	}
	r.answerNew(&replay{op: ib.OpAtomicWrite, rkey: h.RKey, va: h.VA, length: h.Len}, 1)
	return pass
}

// atomicFault distinguishes a misaligned real address, which the peer cannot see, from a refused
// key.
func (r *responder) atomicFault(f mem.Fault) verdict {
	r.wc.VendorErr = uint32(f)
	if f == mem.FaultAlign {
		return badRequest
	}
	return badAccess
}

// doFlush makes earlier WRITEs visible or persistent. Ordinary memory is always globally visible
// here; persistence is the job of the region's owner (View.Persist).
func (r *responder) doFlush(p *ib.Packet) verdict {
	qp := r.qp
	h := &p.RETH
	need, _ := flushRights(p.FETH)
	var (
		view mem.View
		f    mem.Fault
	)
	if p.FETH&ib.FlushMR != 0 {
		view, f = qp.e.cfg.Mem.RemoteWhole(qp.pd, qp.num, h.RKey, need)
	} else {
		view, f = qp.e.cfg.Mem.Remote(qp.pd, qp.num, h.RKey, h.VA, h.Len, need)
	}
	if f != mem.FaultNone {
		r.wc.VendorErr = uint32(f)
		return badAccess
	}
	if p.FETH&ib.FlushPersistence != 0 && view.Persist() != nil {
		return badQueue // remote operational error: ours, not the peer's
	}
	r.answerNew(&replay{op: ib.OpFlush, rkey: h.RKey, va: h.VA, length: h.Len}, 1)
	return pass
}

// answerNew moves past an executed request that takes n PSNs, remembers it, and queues its answer.
func (r *responder) answerNew(s *replay, n uint64) {
	r.msn = r.msn.Next()
	s.first, s.last, s.msn = r.next, r.next+n-1, r.msn
	r.next += n
	r.store.add(s)
	r.owe(&answer{
		op: s.op, rkey: s.rkey, msn: s.msn, va: s.va, end: uint64(s.length), value: s.value,
		first: s.first, start: s.first, at: s.first, last: s.last,
	})
}
