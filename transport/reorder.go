package transport

import (
	"bytes"

	"github.com/goroce/goroce/ib"
)

// reorder keeps packets that came before their turn: requests behind a gap at a responder,
// responses behind one at a requester. They are untouched copies. In their turn they are handled as
// if they came at that time.
//
// For a queue pair their distance from the expected PSN bounds their number; for an engine their
// memory does (keptPool). The first early packet allocates the ring.
type reorder struct {
	n     int
	seq   uint64        // number of the last kept packet, since there were none
	doubt uint64        // the newest number that came before a packet that was not lost
	top   ib.PSN        // behind the newest PSN kept; meaningless if n is 0
	psns  int32         // PSNs that all take
	slots []*keptPacket // indexed by the low bits of the PSN; length is a power of two, or 0
}

// keptPacket is a packet with the memory of its payload.
type keptPacket struct {
	p    ib.Packet
	psns int32
	seq  uint64 // its number
	near bool   // at most a few packets were missing right before it
	same bool   // it has come twice
	buf  []byte
}

// keptPool is the memory of an engine's kept packets.
type keptPool struct {
	used int // bytes lent
	free []*keptPacket
}

// cost returns what a kept packet counts for, in bytes.
func (k *keptPacket) cost() int { return cap(k.buf) + keptOverhead }

// lend returns memory for n payload bytes, or nil if the pool is used up.
func (m *keptPool) lend(n int) *keptPacket {
	if m.used+n+keptOverhead > maxKeptBytes {
		return nil
	}
	var k *keptPacket
	if i := len(m.free) - 1; i >= 0 {
		k, m.free[i], m.free = m.free[i], nil, m.free[:i]
	} else {
		k = &keptPacket{}
	}
	if cap(k.buf) < n {
		k.buf = make([]byte, n)
	}
	m.used += k.cost()
	return k
}

// giveBack takes memory back. It keeps that of a limited number of packets for reuse.
func (m *keptPool) giveBack(k *keptPacket) {
	m.used -= k.cost()
	if len(m.free) < maxKeptFree {
		m.free = append(m.free, k)
	}
}

// at returns the packet with a PSN, or nil.
func (o *reorder) at(psn ib.PSN) *keptPacket {
	if len(o.slots) == 0 {
		return nil
	}
	if k := o.slots[int(psn)&(len(o.slots)-1)]; k != nil && k.p.PSN == psn {
		return k
	}
	return nil
}

// keep copies p, which takes n PSNs and is behind next, unless it is already here or memory is used
// up. It reports whether p is here now.
func (o *reorder) keep(e *Engine, next ib.PSN, p *ib.Packet, n int) bool {
	if o.at(p.PSN) != nil {
		return true
	}
	k := e.kept.lend(len(p.Payload))
	if k == nil {
		return false
	}
	o.grow(span(next, p.PSN) + 1)
	payload := append(k.buf[:0], p.Payload...)
	o.seq++
	k.p, k.psns, k.seq, k.near, k.same = *p, int32(n), o.seq, o.isNear(next, p.PSN), false
	k.p.Payload = payload
	o.slots[int(p.PSN)&(len(o.slots)-1)] = k
	if end := p.PSN.Add(n); o.n == 0 || end.After(o.top) {
		o.top = end
	}
	o.n++
	o.psns += int32(n)
	return true
}

// isNear reports whether the packets missing right before psn are few enough to have been overtaken
// by it, or were so for the kept packet that it directly follows.
func (o *reorder) isNear(next, psn ib.PSN) bool {
	for missing := range maxReorder + 1 {
		if psn == next {
			return true
		}
		psn = psn.Prev()
		if k := o.at(psn); k != nil {
			return missing > 0 || k.near
		}
	}
	return psn == next
}

// grow makes the ring large enough for n PSNs.
func (o *reorder) grow(n int) {
	if n <= len(o.slots) {
		return
	}
	size := max(minKeptSlots, len(o.slots))
	for size < n {
		size *= 2
	}
	old := o.slots
	o.slots = make([]*keptPacket, size)
	for _, k := range old {
		if k != nil {
			o.slots[int(k.p.PSN)&(size-1)] = k
		}
	}
}

// differs reports whether p differs from the kept packet with its PSN.
func (o *reorder) differs(p *ib.Packet) bool {
	k := o.at(p.PSN)
	if k == nil {
		return false
	}
	q := &k.p
	return p.Opcode != q.Opcode || p.RETH != q.RETH && p.Opcode.Info().Headers&ib.HasRETH != 0 ||
		!bytes.Equal(p.Payload, q.Payload)
}

// take moves the packet with a PSN to p. It returns false if there is none. The payload is valid
// until another packet is kept.
func (o *reorder) take(e *Engine, psn ib.PSN, p *ib.Packet) bool {
	k := o.at(psn)
	if k == nil {
		return false
	}
	*p = k.p
	o.drop(e, k)
	return true
}

// drop removes a packet.
func (o *reorder) drop(e *Engine, k *keptPacket) {
	o.slots[int(k.p.PSN)&(len(o.slots)-1)] = nil
	o.psns -= k.psns
	if o.n--; o.n == 0 {
		o.seq, o.doubt = 0, 0
	}
	k.p.Payload = nil
	e.kept.giveBack(k)
}

// passed removes the packets from one PSN up to another.
func (o *reorder) passed(e *Engine, from, to ib.PSN) {
	if o.n == 0 {
		return
	}
	for psn, left := from, min(span(from, to), len(o.slots)); left > 0; left-- {
		if k := o.at(psn); k != nil {
			o.drop(e, k)
		}
		psn = psn.Next()
	}
}

// first returns the oldest kept PSN, starting at from.
func (o *reorder) first(from ib.PSN) (ib.PSN, bool) {
	if o.n != 0 {
		for psn, i := from, 0; i < len(o.slots); psn, i = psn.Next(), i+1 {
			if o.at(psn) != nil {
				return psn, true
			}
		}
	}
	return 0, false
}

// clear removes all packets, and the ring.
func (o *reorder) clear(e *Engine) {
	for _, k := range o.slots {
		if k != nil {
			o.drop(e, k)
		}
	}
	*o = reorder{}
}
