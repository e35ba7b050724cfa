package receive

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
)

// Datagram is a received UDP datagram: a packet, or a run of packets that a peer has sent with
// segmentation offload, or that the kernel has coalesced.
type Datagram struct {
	Data         []byte // of the packets, each BTH through ICRC
	Source       link.Source
	TrafficClass uint8
	HopLimit     uint8
	// Ident is the IPv4 identification of the first packet, if Known: a UDP socket does not reveal
	// it.
	Ident uint16
	Known bool
	// Segment is the length of the packets of a run except the last, in bytes; 0 for a single
	// packet.
	Segment int
}

// Splitter splits a datagram into packets.
type Splitter struct {
	Counters

	// HandOn, if set, is called with packets that are not for Slot, and those to queue pair 1. It
	// returns true if it handed the packet to another device.
	HandOn func(*edge.RxPacket) bool
	Slot   ib.Slot

	verifier *link.Verifier
	cur      Datagram
	flow     link.Flow // of cur: looked up once for all packets of a run
	index    int       // of the next packet in cur
	sum      tally
	left     left
}

// tally holds counts not yet added to the counters.
type tally struct {
	datagrams, packets, bytes, icrc, solved, short uint64
}

// Init makes s split datagrams to a UDP port.
func (s *Splitter) Init(port uint16) { s.verifier = link.NewVerifier(port) }

// Flow returns the state of a flow, with which packets can be checked before Begin.
func (s *Splitter) Flow(source *link.Source) link.Flow { return s.verifier.Flow(source) }

// Begin moves to a datagram. If it cannot hold a packet, or only one that is too long, Begin counts
// it and returns false.
func (s *Splitter) Begin(d *Datagram) bool {
	s.cur.Data = nil
	switch {
	case len(d.Data) == 0:
		s.sum.short++
		return false
	case d.Segment > ib.MaxPacketBytes || d.Segment <= 0 && len(d.Data) > ib.MaxPacketBytes:
		s.Truncated.Add(1)
		return false
	}
	s.cur, s.index = *d, 0
	s.left.begin()
	s.flow = s.verifier.Flow(&d.Source)
	return true
}

// Pending reports whether packets of the datagram are left.
func (s *Splitter) Pending() bool { return len(s.cur.Data) > 0 }

// Split hands up packets of the datagram, as many as fit, and counts wrong ones.
func (s *Splitter) Split(batch []edge.RxPacket) (n int) {
	for n < len(batch) && s.Pending() {
		if s.left.on {
			if s.leave(&batch[n]) {
				n++
				continue
			}
			if s.left.ended {
				break
			}
		}
		switch v := s.Next(&batch[n]); v {
		case link.VerdictOK, link.VerdictSolved:
			if s.HandOn == nil || !s.elsewhere(&batch[n]) {
				s.left.next++
				n++
			}
		default:
			s.Count(v)
		}
	}
	return n
}

// elsewhere hands a packet on if it is for another device.
func (s *Splitter) elsewhere(p *edge.RxPacket) bool {
	if !s.foreign(p.Data) || !s.HandOn(p) {
		return false
	}
	s.sum.packets--
	s.sum.bytes -= uint64(len(p.Data))
	return true
}

// foreign reports whether a packet, which has at least a BTH, may be for another device.
func (s *Splitter) foreign(b []byte) bool {
	qpn := ib.QPN(binary.BigEndian.Uint32(b[4:])) & ib.QPNMask
	return qpn == ib.QPNGSI || !s.Slot.Has(qpn)
}

// HandedIn counts a packet that another device has handed on.
func (s *Splitter) HandedIn(p *edge.RxPacket) {
	s.sum.packets++
	s.sum.bytes += uint64(len(p.Data))
	s.In.Add(1)
}

// Next takes the next packet of the datagram, which must have one, and hands it up if it is right;
// if not, the caller must Count the verdict.
func (s *Splitter) Next(p *edge.RxPacket) link.Verdict {
	b := s.take()
	v := s.check(b)
	s.index++
	switch v {
	case link.VerdictBad, link.VerdictShort:
		return v
	case link.VerdictSolved:
		s.sum.solved++
	}
	s.describe(p, b, edge.ICRCRight)
	return v
}

// take cuts the next packet off the datagram.
func (s *Splitter) take() []byte {
	c := &s.cur
	size := len(c.Data)
	if c.Segment > 0 {
		size = min(size, c.Segment)
	}
	b := c.Data[:size:size]
	c.Data = c.Data[size:]
	return b
}

// check checks the next packet of the datagram.
func (s *Splitter) check(b []byte) (v link.Verdict) {
	f := s.flow
	if s.index > 0 {
		f = s.left.rest().Flow()
	}
	if s.cur.Known {
		v = f.CheckSegment(b, s.cur.Ident, s.index)
	} else {
		v = f.Check(b, s.index)
	}
	if s.index == 0 && len(s.cur.Data) > 0 {
		s.left.follow(f.Rest((len(s.cur.Data) + s.cur.Segment - 1) / s.cur.Segment))
	}
	return v
}

// describe fills in a packet that is handed up.
func (s *Splitter) describe(p *edge.RxPacket, b []byte, state edge.ICRCState) {
	c := &s.cur
	p.Src, p.Dst = c.Source.Src, c.Source.Dst
	p.TrafficClass, p.HopLimit = c.TrafficClass, c.HopLimit
	p.SrcPort, p.Data = c.Source.SrcPort, b
	p.InRun, p.ICRC = c.Segment > 0, state
	s.sum.packets++
	s.sum.bytes += uint64(len(b))
}

// Received counts datagrams, whether good or not.
func (s *Splitter) Received(n int) { s.sum.datagrams += uint64(n) }

// Count counts a packet that Next did not hand up.
func (s *Splitter) Count(v link.Verdict) {
	if v == link.VerdictShort {
		s.sum.short++
	} else {
		s.sum.icrc++
	}
}

// dropped corrects the counters for a packet of the given size that turned out to be wrong.
func (s *Splitter) dropped(size int) {
	s.packets.Add(^uint64(0))
	s.bytes.Add(-uint64(size))
	s.icrc.Add(1)
}

// Publish adds the new counts to the counters. It is called once a batch: an atomic operation costs
// as much as a small packet.
func (s *Splitter) Publish() {
	t := &s.sum
	if t.datagrams > 0 {
		s.datagrams.Add(t.datagrams)
	}
	if t.packets > 0 {
		s.packets.Add(t.packets)
		s.bytes.Add(t.bytes)
	}
	if t.solved > 0 {
		s.solved.Add(t.solved)
	}
	if t.icrc > 0 {
		s.icrc.Add(t.icrc)
	}
	if t.short > 0 {
		s.short.Add(t.short)
	}
	*t = tally{}
}
