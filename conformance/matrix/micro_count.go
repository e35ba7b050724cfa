package matrix

import (
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/analyse"
)

// How many packets the two sides make of what they are sent.

// cnpGap marks all packets of a long WRITE, and measures how many CNPs that makes, how soon, and
// how close together.
func cnpGap(x *trial, f *findings) {
	const size = 256 * faultMTU
	match := ether.Match{From: x.req.p.PortName(), Dst: x.rsp.p.Addr(x.family), QPN: x.sq.QPN(), AnyPSN: true}
	marked := x.rule(&ether.Rule{Match: match, Kind: ether.MarkCE, Times: -1})
	x.transfer(peer.OpWrite, size)
	r := peer.Got(x.analysed(x.v, atResponder, analyse.Conduct{}))
	peer.Must(breaches(x.rsp.p.Name(), r))
	cnps := r.Connections[0].Ways[0].CNPs
	f.sample("ce_packets", "", float64(marked.Hits()))
	f.sample("cnps", "", float64(cnps))
	if cnps > marked.Hits() {
		peer.Must(fmt.Errorf("%d CNPs for %d marked packets", cnps, marked.Hits()))
	}
	x.cnpTimes(f)
}

// cnpTimes measures from the first packet to the first CNP, and from each CNP to the next.
func (x *trial) cnpTimes(f *findings) {
	first, last := time.Duration(-1), time.Duration(-1)
	for _, e := range x.tr.Events() {
		switch {
		case x.toResponder(e.Pkt) && first < 0:
			first = e.At
		case e.Pkt.Opcode != ether.OpCNP:
		case last < 0:
			f.time("cnp_made", e.At-first)
			last = e.At
		default:
			f.time("cnp_gap", e.At-last)
			last = e.At
		}
	}
}

// ackCoalescing posts many WRITEs at once and counts the ACKs.
func ackCoalescing(x *trial, f *findings) {
	const n = 48
	for i := range n {
		wr := x.wr(peer.OpWrite, uint64(i), 512)
		if i < n-1 {
			wr.Flags &^= peer.FlagSignaled
		}
		x.postWR(wr)
	}
	x.sent(n - 1)
	w := &peer.Got(x.analysed(x.v, atResponder, analyse.Conduct{})).Connections[0].Ways[0]
	f.numbers["messages"] = n
	f.sample("acks", "", float64(w.ACKs))
	f.sample("acks_asked_for", "", float64(w.ACKReqs))
	if w.ACKs == 0 {
		peer.Must(errors.New("no ACK was seen"))
	}
}
