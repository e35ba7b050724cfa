package transport

import "github.com/goroce/goroce/ib"

// Requests behind a gap. A responder keeps them, as far as memory and reason admit, and executes
// them in their turn, when what was missing has come: each as if it came then, with all checks of
// its own. So nothing that a program can look at changes before its turn, and what was refused,
// revoked or moved in the meantime is refused.
//
// A packet that comes too early may be made up: there are as many PSNs to guess then as there may
// be packets ahead. It is executed in its turn only if those before it were lost, and sent again,
// by a requester that says so (ib.Resv7Selective), or if itself has come a second time, and was the
// same. In between the peer's own has come, too, and neither of two that differ is believed. So to
// forge a packet is as hard as without all this; but to such a requester three may be overtaken, by
// which it becomes four times as easy.
//
// On the wire that is an ordinary responder which acknowledges more at once: a sequence NAK that
// names the first packet that is missing, and when that has come an ACK of all up to the next that
// is, and a NAK for it. A requester that sends all again sees the ACK and goes on behind it;
// rdma_rxe does (docs/rxe.md, row 28).
//
// To a requester that knows selective repeat (ib.Resv7Selective) the NAK also tells which packets
// behind the missing one are here (keptMap). It is then sent for whatever changes what that says
// beyond the next packet: another hole, a part of a hole filled, and when the requester asks.

// keepAhead keeps a request that is d behind the expected one, or drops it. It reports whether a
// requester that wants to know what is here has to be told.
func (r *responder) keepAhead(now int64, p *ib.Packet, d int) (news bool) {
	e, next, k := r.qp.e, psnOf(r.next), &r.kept
	top := next
	if k.n != 0 && k.top.After(top) {
		top = k.top
	}
	switch {
	case e.cfg.Tuning.GoBackN:
		r.drop(now, p, "out of sequence")
		return false
	case k.at(p.PSN) != nil:
		if k.differs(p) {
			// One of them is made up. What is sent again will tell.
			k.drop(e, k.at(p.PSN))
			r.drop(now, p, "differs from what came before")
			return false
		}
		r.drop(now, p, "kept before")
		return p.AckReq
	case d > r.keepsAhead() || len(p.Payload) > r.qp.mtu:
		r.drop(now, p, "out of sequence")
		return false
	}
	n := 1
	if p.Opcode == ib.RCReadRequest {
		n = int(min(r.readPackets(p.RETH.Len), maxKeepAhead))
	}
	if !k.keep(e, next, p, n) {
		r.drop(now, p, "no memory to keep it")
		return false
	}
	e.counters.KeptAhead++
	return p.AckReq || p.PSN != top || top == next
}

// keepsAhead returns how far ahead of the expected PSN packets are kept.
func (r *responder) keepsAhead() int {
	return min(max(minKeepAhead, r.qp.attr.MaxUnackedPackets, r.qp.e.cfg.Tuning.MaxUnackedPackets), maxKeepAhead)
}

// executeFrom takes the request whose turn it is, and then those that were kept and whose turn
// comes by that, if it is sure that they are the peer's.
func (r *responder) executeFrom(now int64, p *ib.Packet, info *ib.OpcodeInfo) {
	e, k, inTurn := r.qp.e, &r.kept, 0
	due := r.nak.due
	sure := p.Resv7 == ib.Resv7Selective || k.at(p.PSN) != nil && !k.differs(p)
	for {
		at := r.next
		r.execute(now, p, info)
		if r.next == at || r.fatal.active {
			break // refused
		}
		k.passed(e, psnOf(at), psnOf(r.next))
		next := k.at(psnOf(r.next))
		if next == nil || !sure && !(r.told && next.near) {
			break
		}
		sure = true
		k.take(e, psnOf(r.next), p)
		info = p.Opcode.Info()
		inTurn++
	}
	e.counters.KeptInTurn += uint64(inTurn)
	switch {
	case r.fatal.active || r.qp.state == StateErr || r.nak.latch != nakNone:
	case inTurn > 0 && k.n == 0:
		if !p.AckReq {
			r.ackInTurn()
		}
	case inTurn > 0, r.told && (due || k.n > 1 && k.at(psnOf(r.next)) != nil):
		r.sequenceNAK() // of the next gap, which has shown already
	}
}

// ackInTurn acknowledges what was executed, also if nobody has asked: a requester that sends all
// again need not go on. What is answered otherwise is acknowledged by that.
func (r *responder) ackInTurn() {
	if n := r.store.newest(); n == nil || n.last != r.next-1 {
		r.acknowledge()
	}
}

// tellKept makes a sequence NAK one that tells what is here.
func (r *responder) tellKept(tx *TxPacket) {
	k, next := &r.kept, psnOf(r.next)
	if k.n == 0 {
		return
	}
	n := min((span(next, k.top)-1+31)/32*4, r.qp.mtu)
	m := keptMap(tx.CopyBuffer(n))
	clear(m)
	for i := range min(m.bits(), len(k.slots)) {
		p := k.at(next.Add(1 + i))
		if p == nil {
			continue
		}
		m.set(i)
		if p.p.Opcode == ib.RCReadRequest { // takes the PSNs of its response
			for j := i + 1; j < min(i+int(r.readPackets(p.p.RETH.Len)), m.bits()); j++ {
				m.set(j)
			}
		}
	}
	tx.Frags[0], tx.NumFrags, tx.PayloadLen = m, 1, uint16(n)
}

// learn takes from a request that is the peer's whether it knows selective repeat.
func (r *responder) learn(p *ib.Packet) {
	if p.Resv7 == ib.Resv7Selective && !r.qp.e.cfg.Tuning.GoBackN {
		r.told = true
	}
}
