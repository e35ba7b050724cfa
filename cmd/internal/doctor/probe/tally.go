package probe

// tally counts the packets of a run where they arrive.
type tally struct {
	counts
	next uint32 // one more than the highest number that came
	had  [maxSeq / 64]uint64
}

// add counts a packet. Numbers beyond maxSeq are not counted.
func (t *tally) add(seq uint32, v Verdict, tos uint8) {
	if seq >= maxSeq {
		return
	}
	bit := uint64(1) << (seq % 64)
	if t.had[seq/64]&bit != 0 {
		t.Duplicate++
		return
	}
	t.had[seq/64] |= bit
	t.Received++
	if seq < t.next {
		t.Reordered++
	} else {
		t.next = seq + 1
	}
	if v != Good && v != Rewritten {
		t.BadICRC++
	}
	if tos&ecnMask == ecnCE {
		t.Marked++
	}
}

// ECN in the traffic class (RFC 3168).
const (
	ecnMask = 3
	ecnECT0 = 2
	ecnCE   = 3
)
