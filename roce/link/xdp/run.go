package xdp

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/raw"
	"github.com/goroce/goroce/transport"
)

// run is a frame that holds several packets under one header: what a peer sent
// with segmentation offload, and nobody cut up, as between two network
// namespaces. It comes up in generic mode only. An XDP socket is not told
// the length of the segments; it is that with which the ICRC of the first is right.
type run struct {
	d       raw.Datagram
	left    []byte
	segment int
	index   int
	last    int // segment length of the run before
}

func (u *run) pending() bool { return len(u.left) > 0 }

// begin looks for the packets in a datagram that is not one. Searching costs
// time that grows with the square of the length, so that not many in a row may be
// searched in vain.
func (r *receiver) begin(d *raw.Datagram) bool {
	flow := r.verifier.Flow(&d.Source)
	longest := min(len(d.Data)-ib.ICRCBytes, ib.MaxPacketBytes)
	right := func(n int) bool {
		return n <= longest && flow.CheckKnown(d.Data[:n], d.Ident) == link.VerdictOK
	}
	u := &r.run
	n := u.last
	if n == 0 || !right(n) {
		if r.searches == 0 {
			return false
		}
		// All packets are of a multiple of 4 bytes.
		for n = ib.BTHBytes + ib.ICRCBytes; n <= longest && !right(n); n += 4 {
		}
		if n > longest {
			r.searches--
			return false
		}
	}
	r.searches = maxSearches
	u.d, u.left, u.segment, u.index, u.last = *d, d.Data, n, 0, n
	return true
}

// cut hands up packets of the run, as many as fit.
func (r *receiver) cut(batch []transport.RxPacket) (n int) {
	u := &r.run
	for n < len(batch) && u.pending() {
		size := min(len(u.left), u.segment)
		b := u.left[:size:size]
		u.left = u.left[size:]
		verdict := r.verifier.Flow(&u.d.Source).CheckSegment(b, u.d.Ident, u.index)
		u.index++
		switch verdict {
		case link.VerdictBad:
			r.stats.icrc.Add(1)
			continue
		case link.VerdictShort:
			r.stats.short.Add(1)
			continue
		}
		handUp(&batch[n], &u.d, b)
		r.stats.packets.Add(1)
		r.stats.bytes.Add(uint64(size))
		n++
	}
	return n
}
