package slots

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/transport/edge"
)

// The sender of a request (REQ) may take it back before it is answered. It does not know our ID
// yet, so its REJ names no slot. Notes in the memory file therefore record which device got which
// request. Anybody can send such a REJ, with any numbers; without the notes, each one would have to
// go to all devices.
//
// There are few notes. A hash chooses the place of each, and a later note overwrites an earlier
// one. If the note of a REJ is gone, the REJ is lost, and the device waits for its peer until a
// timer of its own expires.

// Anyone and Nobody are the results of For for packets that are for no slot.
const (
	Anyone = -1 // any device may answer, or refuse
	Nobody = -2 // no device got the request that the packet is about: drop it
)

// For returns the slot that a packet at address i is for. It decides what a slot number cannot: a
// request is for the device that announced the service, and a message that takes a request back is
// for the device that got the request.
func (l *Lease) For(i int, p *edge.RxPacket) int {
	to := Steer(p.Data)
	if to != Requests {
		return to
	}
	if slot, ok := Asked(p.Data); ok {
		if slot != l.slot && !l.Serves(i, slot) {
			return Anyone // any device answers: the process is gone
		}
		return slot
	}
	if service, ok := service(p.Data); ok {
		owner, ok := l.Owner(i, service)
		if !ok {
			return Anyone // any device refuses
		}
		if attribute(p.Data) == mad.AttrREQ {
			l.sets[i].note(l.sets[i].noteOf(p), owner)
		}
		return owner
	}
	if !withdraws(p.Data) {
		return Anyone
	}
	return l.sets[i].noted(l.sets[i].noteOf(p))
}

// withdraws reports whether a message that names no slot takes back an earlier request: a REJ.
func withdraws(b []byte) bool {
	return len(b) >= peerAt+4 && mad.Class(b[classAt]) == mad.ClassCM && attribute(b) == mad.AttrREJ
}

func attribute(b []byte) mad.Attribute {
	return mad.Attribute(binary.BigEndian.Uint16(b[attributeAt:]))
}

// noteOf hashes the sender of a message and its ID for the connection. The key is random, so that
// nobody can aim at the notes of others.
func (s *set) noteOf(p *edge.RxPacket) uint64 {
	src := p.Src.As16()
	h := s.key
	for _, w := range [3]uint64{
		binary.BigEndian.Uint64(src[:]), binary.BigEndian.Uint64(src[8:]),
		uint64(binary.BigEndian.Uint32(p.Data[dataAt:])),
	} {
		h = mix(h ^ w)
	}
	return h
}

// mix is the final step of splitmix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// slotMask selects the bits of a note that hold the slot; the others hold part of the hash.
const slotMask = Count - 1

func noteAt(h uint64) int64 { return askedAt + int64(h>>(64-askedBits))*askedBytes }

// note records that a slot got a request.
func (s *set) note(h uint64, slot int) {
	v := h&^slotMask | uint64(slot)
	if old, err := s.read(noteAt(h)); err == nil && old == v {
		return // another device read it as well, or it was sent again
	}
	_ = s.write(noteAt(h), v) // if this fails, a REJ is lost
}

// noted returns the slot that got a request, or Nobody.
func (s *set) noted(h uint64) int {
	v, err := s.read(noteAt(h))
	if err != nil || v&^slotMask != h&^slotMask {
		return Nobody
	}
	return int(v & slotMask)
}
