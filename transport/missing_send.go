package transport

import "github.com/goroce/goroce/ib"

// This file resends what is missing: see missing.

// sendMissing sends due packets and returns how many.
func (sq *requester) sendMissing(now int64, batch []TxPacket) int {
	x, n, i := sq.miss, 0, sq.q.head
	for n < len(batch) && sq.dueAgain() && x.next != sq.end {
		s := x.at(x.next)
		if !s.due {
			x.next = x.next.Next()
			continue
		}
		k := sq.sendAgain(now, x.next, &i, &batch[n])
		if k > 0 {
			n++
		}
		for k = max(k, 1); k > 0; k-- { // 0: its memory is gone, which the ACK timeout finds
			x.sentAgain(now, x.at(x.next), sq.end)
			x.next = x.next.Next()
		}
	}
	return n
}

// sendAgain builds the packet of psn, which was sent before, without moving sq. The packet belongs
// to request *i or one behind it. sendAgain returns the number of PSNs that the packet covers: for
// a READ with part of its response missing, those of that part.
func (sq *requester) sendAgain(now int64, psn ib.PSN, i *uint32, tx *TxPacket) int {
	q := &sq.q
	if *i = sq.requestOf(*i, psn); *i == q.tail || q.at(*i).state != wqeBegun {
		return 0
	}
	w, n, x := q.at(*i), 1, sq.miss
	if w.op == WRRead {
		last := sq.partOf(psn)
		if x.at(psn).want {
			for at := psn; at != last && n < sq.againRoom(); n++ {
				if at = at.Next(); !x.at(at).due || !x.at(at).want {
					break
				}
			}
		} else {
			n = span(psn, last) + 1 // the request is missing, and must be the same again
		}
	}
	cur, curPkt, next, sinceAck, read := q.cur, sq.curPkt, sq.psn, sq.sinceAck, sq.reads.next
	q.cur, sq.curPkt, sq.psn = *i, uint32(span(w.psn, psn)), psn
	ok := sq.remake(w, tx, n)
	q.cur, sq.curPkt, sq.psn, sq.sinceAck, sq.reads.next = cur, curPkt, next, sinceAck, read
	if !ok {
		return 0
	}
	e := sq.qp.e
	e.counters.RetransmittedPkts++
	e.counters.SelectiveRepeats++
	sq.sentAgainPkts(now, psn, "missing")
	return n
}

// partOf returns the last PSN of the READ request that contains psn.
func (sq *requester) partOf(psn ib.PSN) ib.PSN {
	r := &sq.reads
	for j := r.head; j != r.tail; j++ {
		if last := *r.at(j); !last.Before(psn) {
			return last
		}
	}
	return psn
}
