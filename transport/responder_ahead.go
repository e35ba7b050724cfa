package transport

import "github.com/goroce/goroce/ib"

// Requests behind a gap. A responder keeps them, within limits of memory and distance, and executes
// them in their turn, once the missing ones have come. Each then passes all checks, as if it came
// at that time. So a program sees no change before its turn, and anything refused, revoked or moved
// in the meantime is refused.
//
// An early packet may be forged, and with a window of PSNs ahead a forger has many to guess. So a
// kept packet is executed only if those before it were lost and are marked as sent again
// (ib.Resv7Selective), or if it has come twice, unchanged. By then the peer's own packet has come
// as well, and if the two differ neither is believed. Forging is thus as hard as without keeping.
// With a requester that knows selective repeat, three packets may be overtaken without such proof,
// which makes it four times as easy.
//
// On the wire this is an ordinary responder that acknowledges more at once: it sends a sequence NAK
// for the first missing packet, and when that has come an ACK up to the next one and a NAK for it.
// A requester that resends everything sees the ACK and continues behind it; rdma_rxe does so
// (docs/rxe.md, row 28).
//
// For a requester that knows selective repeat the NAK also carries a keptMap of the packets behind
// the missing one. It is sent when a packet opens a hole or fills part of one, and when the
// requester asks.

// keepAhead keeps a request that is d ahead of the expected one, or drops it. It reports whether a
// requester that wants keptMaps needs a new one.
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
			// One of the two is forged. The repetition will tell.
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

// keepsAhead returns how far ahead of the expected PSN packets are kept: further if at least half
// of those so far ahead are here, as when a peer on a long path uses its window. So a few forged
// packets have no more kept, unless one is a READ, which counts as all that it asks for.
func (r *responder) keepsAhead() int {
	dense := min(2*int(r.kept.psns), DefaultMaxUnackedPackets<<maxLong*maxStretch)
	return min(max(minKeepAhead, dense, r.qp.attr.MaxUnackedPackets, r.qp.e.cfg.Tuning.MaxUnackedPackets),
		maxKeepAhead)
}

// executeFrom executes the request whose turn it is, then the kept ones that follow it without a
// gap, as long as they are surely the peer's.
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
		r.sequenceNAK() // of the next gap, which is known already
	}
}

// ackInTurn acknowledges what was executed even if no packet asked, so that a requester that
// resends everything can stop. A READ or atomic needs no ACK: its answer acknowledges.
func (r *responder) ackInTurn() {
	if n := r.store.newest(); n == nil || n.last != r.next-1 {
		r.acknowledge()
	}
}

// tellKept adds to a sequence NAK the map of the packets that are here.
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
		if p.p.Opcode == ib.RCReadRequest { // a READ takes the PSNs of its response
			for j := i + 1; j < min(i+int(r.readPackets(p.p.RETH.Len)), m.bits()); j++ {
				m.set(j)
			}
		}
	}
	tx.Frags[0], tx.NumFrags, tx.PayloadLen = m, 1, uint16(n)
}

// learn notes from a genuine request whether the peer knows selective repeat.
func (r *responder) learn(p *ib.Packet) {
	if p.Resv7 == ib.Resv7Selective && !r.qp.e.cfg.Tuning.GoBackN {
		r.told = true
	}
}
