package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// requiredAccess lists the right that each operation needs from the QP and from the memory.
// flushRights handles FLUSH, which depends on its header.
var requiredAccess = [...]mem.Access{
	ib.OpSend:        0,
	ib.OpWrite:       mem.RemoteWrite,
	ib.OpRead:        mem.RemoteRead,
	ib.OpCompareSwap: mem.RemoteAtomic,
	ib.OpFetchAdd:    mem.RemoteAtomic,
	ib.OpAtomicWrite: mem.RemoteWrite,
	ib.OpFlush:       0,
}

// checkSequence checks the order of packets within a message (IBTA 9.7.4.1.2): a first packet only
// between messages, any other only after a first one of the same operation.
func (r *responder) checkSequence(info *ib.OpcodeInfo) verdict {
	if info.Pos&ib.First != 0 {
		if r.msg.op != ib.OpInvalid {
			return badRequest
		}
	} else if r.msg.op != info.Op {
		return badRequest
	}
	return pass
}

// checkRights checks whether the QP permits the operation (IBTA 9.7.4.1.3).
func (r *responder) checkRights(p *ib.Packet, info *ib.OpcodeInfo) verdict {
	if int(info.Op) >= len(requiredAccess) {
		return badRequest
	}
	need := requiredAccess[info.Op]
	if info.Op == ib.OpFlush {
		var ok bool
		if need, ok = flushRights(p.FETH); !ok {
			return badRequest
		}
	}
	if !r.qp.attr.Access.Has(need) {
		return badRequest
	}
	return pass
}

// checkResources claims what a request uses up (IBTA 9.7.4.1.4): a receive request for the first
// packet of a SEND and the last of a WRITE with immediate, and room for READs and atomics.
func (r *responder) checkResources(p *ib.Packet, info *ib.OpcodeInfo) verdict {
	switch info.Op {
	case ib.OpSend:
		if info.Pos&ib.First != 0 {
			return r.takeBuffers(len(p.Payload))
		}
	case ib.OpWrite:
		if info.Headers&ib.HasImmDt != 0 && !r.takeRecv() {
			return notReady
		}
	case ib.OpRead, ib.OpCompareSwap, ib.OpFetchAdd, ib.OpAtomicWrite:
		// The depth itself is not enforced: rxe rounds it up to a power of two, and programs
		// exchange it carelessly. Only a peer with more unanswered requests than any program could
		// have is refused (IBTA: "too many RDMA READ or ATOMIC requests").
		if r.qp.attr.MaxDestRdAtomic == 0 || r.out.full() {
			return badRequest
		}
	case ib.OpFlush:
		if r.out.full() {
			return badRequest
		}
	}
	return pass
}

// checkLength checks the payload against opcode and path MTU, and the padding against the payload
// (IBTA 9.7.4.1.6).
func (r *responder) checkLength(p *ib.Packet, info *ib.OpcodeInfo) verdict {
	n := len(p.Payload)
	if !info.Payload.Admits(n, r.qp.mtu) || int(p.Pad) != ib.PadFor(n) {
		return badRequest
	}
	if info.Headers&ib.HasRETH != 0 && p.RETH.Len > MaxMessage && info.Op != ib.OpFlush {
		return badRequest
	}
	return pass
}

// flushRights returns the rights that a FLUSH needs, or false for a header that the specification
// does not define (annex A19).
func flushRights(h ib.FETH) (mem.Access, bool) {
	const known = ib.FlushGlobalVisibility | ib.FlushPersistence | ib.FlushMR
	if h&^known != 0 || h&(ib.FlushGlobalVisibility|ib.FlushPersistence) == 0 {
		return 0, false
	}
	var need mem.Access
	if h&ib.FlushGlobalVisibility != 0 {
		need |= mem.FlushGlobal
	}
	if h&ib.FlushPersistence != 0 {
		need |= mem.FlushPersistent
	}
	return need, true
}
