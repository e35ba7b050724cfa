package matrix

import (
	"slices"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
)

// rxeInflight is how many packets rxe has on their way to the device before it waits for
// them to leave it.
const rxeInflight = 64

// stalled reports whether rxe has stopped in the middle of a UC or RC message of size bytes
// that began with PSN first: the wire has seen its first packets, more than rxeInflight of
// them, in order and without a gap, and not the rest; on RC also an ACK of all of them.
//
// rxe 6.1 was seen to do so once in about 2,100 messages of 1 MiB. In that case the guest's device
// had sent every packet that rxe had handed to it and went on working for others, and rxe sent the
// other 3,939 packets, with both completions, as soon as one more request was posted to the queue
// pair. That fits its limit of packets on their way: the requester looks at their number, and only
// then notes that it wants to be woken when packets leave; if all of them leave in between nobody
// wakes it. UC has no timer for that, and that of RC does not run while everything that was sent is
// acknowledged: then rxe stands still for a minute and longer, once in about 5,000 rows.
func (c *conn) stalled(tr *ether.Trace, first uint32, size int) bool {
	if c.typ != peer.UC && c.typ != peer.RC || !isRXE(c.req.p) || tr.Lost() > 0 {
		return false
	}
	events := tr.Events()
	if slices.ContainsFunc(events, func(e ether.Event) bool { return e.Fate != "" }) {
		return false
	}
	return stopped(delivered(events), first, c.packets(size))
}

// stopped is stalled for what the analyser has seen of a message of so many packets.
func stopped(seen *analyse.Report, first uint32, packets int) bool {
	if len(seen.Connections) != 1 || len(seen.Findings) > 0 {
		return false
	}
	w := &seen.Connections[0].Ways[0] // the first packet was a request
	sent := w.NextPSN.Diff(w.FirstPSN)
	return w.FirstPSN == ib.PSN(first) && w.Packets == sent && w.Sequence == 0 && w.RNRNAKs == 0 &&
		sent > rxeInflight && sent < packets && w.UnackedPSN == w.NextPSN
}
