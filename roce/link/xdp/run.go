package xdp

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/transport/edge"
)

// search finds the packets in a frame that holds several under one header: a run that a peer sent
// with segmentation offload and that was never cut up, as between two network namespaces. It
// arrives in generic mode only. An XDP socket does not learn the length of the segments; the right
// one is that for which the ICRC of the first packet is right.
//
// Searching takes time that grows with the square of the length, so few frames in a row may be
// searched without success.
type search struct {
	last int // segment length found last, bytes
	left int // frames that may still be searched without success
}

// found records that a frame had valid packets.
func (s *search) found() { s.left = maxSearches }

// segment returns the length of the segments of a datagram, 0 if there are none.
func (s *search) segment(flow link.Flow, d *receive.Datagram) int {
	longest := min(len(d.Data)-ib.ICRCBytes, ib.MaxPacketBytes)
	right := func(n int) bool {
		return n <= longest && flow.CheckKnown(d.Data[:n], d.Ident) == link.VerdictOK
	}
	if s.last > 0 && right(s.last) {
		s.found()
		return s.last
	}
	if s.left == 0 {
		return 0
	}
	// The length of every packet is a multiple of 4 bytes.
	for n := ib.BTHBytes + ib.ICRCBytes; n <= longest; n += 4 {
		if right(n) {
			s.last = n
			s.found()
			return n
		}
	}
	s.left--
	return 0
}

// splitGeneric hands up packets of a datagram in generic mode, as many as fit.
func (r *receiver) splitGeneric(d *receive.Datagram, batch []edge.RxPacket) int {
	verdict := link.VerdictBad
	if len(d.Data) <= ib.MaxPacketBytes {
		if !r.split.Begin(d) {
			return 0
		}
		switch verdict = r.split.Next(&batch[0]); verdict {
		case link.VerdictOK:
			r.search.found()
			return 1
		case link.VerdictShort:
			r.split.Count(verdict)
			return 0
		}
	}
	if n := r.search.segment(r.split.Flow(&d.Source), d); n > 0 {
		d.Segment = n
		r.split.Begin(d)
		return r.split.Split(batch)
	}
	if len(d.Data) > ib.MaxPacketBytes {
		r.split.Begin(d) // counts it
	} else {
		r.split.Count(verdict)
	}
	return 0
}
