package matrix

import (
	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/conformance/peer"
)

// rxeInflight is how many packets rxe has on their way to the device before it waits for
// them to leave it.
const rxeInflight = 64

// stalled reports whether rxe has stopped in the middle of a UC message of size bytes that
// began with PSN first: the wire has seen its first packets, more than rxeInflight of them,
// in order and without a gap, and not the rest.
//
// rxe 6.1 was seen to do so once in about 2,100 messages of 1 MiB. In that case the
// guest's device had sent every packet that rxe had handed to it and went on working for
// others, and rxe sent the other 3,939 packets, with both completions, as soon as one more
// request was posted to the queue pair. That fits its limit of packets on their way:
// the requester looks at their number, and only then notes that it wants to be woken when
// packets leave; if all of them leave in between nobody wakes it. RC has a timer
// for that, UC has none.
func (c *conn) stalled(tr *wire.Trace, first uint32, size int) bool {
	if c.typ != peer.UC || !isRXE(c.req.p) || tr.Lost() > 0 {
		return false
	}
	events := tr.Events()
	for i, e := range events {
		if e.Fate != "" || e.Pkt.PSN != (first+uint32(i))&psnMask {
			return false
		}
	}
	return len(events) > rxeInflight && len(events) < c.packets(size)
}
