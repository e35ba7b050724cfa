package matrix

import (
	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/conformance/peer"
)

// rxeInflight is how many packets rxe has on their way to the device before it waits for
// them to leave it.
const rxeInflight = 64

// stalled reports whether rxe has stopped in the middle of a UC or RC message of size bytes
// that began with PSN first: the wire has seen its first packets, more than rxeInflight of
// them, in order and without a gap, and not the rest; on RC also an ACK of all of them.
//
// rxe 6.1 was seen to do so once in about 2,100 messages of 1 MiB. In that case the
// guest's device had sent every packet that rxe had handed to it and went on working for
// others, and rxe sent the other 3,939 packets, with both completions, as soon as one more
// request was posted to the queue pair. That fits its limit of packets on their way:
// the requester looks at their number, and only then notes that it wants to be woken when
// packets leave; if all of them leave in between nobody wakes it. UC has no timer
// for that, and that of RC does not run while everything that was sent is acknowledged:
// then rxe stands still for a minute and longer, once in about 5,000 rows.
func (c *conn) stalled(tr *wire.Trace, first uint32, size int) bool {
	if c.typ != peer.UC && c.typ != peer.RC || !isRXE(c.req.p) || tr.Lost() > 0 {
		return false
	}
	var all []sighting
	for _, e := range tr.Events() {
		s, ok := see(e.Pkt, e.At)
		switch {
		case e.Fate != "":
			return false
		case !ok: // of UC, where there are but requests
			s = sighting{psn: e.Pkt.PSN, request: true}
		}
		all = append(all, s)
	}
	return stopped(all, first, c.packets(size), c.typ == peer.RC)
}

// stopped is stalled for what the wire has seen of a message of so many packets.
func stopped(all []sighting, first uint32, packets int, acknowledged bool) bool {
	sent, acked := 0, 0
	for _, s := range all {
		switch {
		case s.request && s.psn == (first+uint32(sent))&psnMask:
			sent++
		case !s.request && s.confirms:
			acked = psnDiff(s.psn, first) + 1
		default:
			return false
		}
	}
	return sent > rxeInflight && sent < packets && (!acknowledged || acked == sent)
}
