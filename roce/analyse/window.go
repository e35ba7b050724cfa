package analyse

import "github.com/goroce/goroce/ib"

// record is a packet that was seen and may matter again.
type record struct {
	psn        ib.PSN
	times      uint16 // how often it was seen; 0 is an empty slot
	ident      uint16
	ackReq     bool // one of its copies asked for an acknowledgement
	lastReq    bool // the last copy did
	ignored    bool // an answer that the requester could not take
	late       bool // it came after later ones
	marked     bool // as one that was sent again
	filled     bool // it was missing first: the NAK for it came before it
	opcode     ib.Opcode
	wire       int // bytes from BTH through ICRC
	frame      int // first seen, or notCaptured
	last       int // last seen
	at, lastAt int64
	op         *operation
	find       *Finding // the loss that it had a part in
	missed     *Finding // the last NAK for it
}

const (
	firstRecords = 32
	maxWindow    = 1 << 14 // records of one window
	keepBehind   = 64      // PSNs that are remembered though they were acknowledged
)

// notCaptured stands for the frame of a packet that the capture lacks. Captures number their frames
// from 1.
const notCaptured = 0

// window remembers the last packets of one direction by PSN.
type window struct {
	slots []record
	a     *Analyser
}

func (w *window) get(p ib.PSN) *record {
	w.a.steps++
	if len(w.slots) == 0 {
		return nil
	}
	r := &w.slots[int(p)&(len(w.slots)-1)]
	if r.times == 0 || r.psn != p {
		return nil
	}
	return r
}

// put returns the record of a PSN, which is new. una is the first PSN that matters.
func (w *window) put(p, una ib.PSN) *record {
	w.a.steps++
	if len(w.slots) == 0 {
		w.grow(firstRecords)
	}
	for len(w.slots) > 0 && len(w.slots) < maxWindow {
		r := &w.slots[int(p)&(len(w.slots)-1)]
		if r.times == 0 || r.psn == p || r.psn.Diff(una.Add(-keepBehind)) < 0 || !w.grow(2*len(w.slots)) {
			break
		}
	}
	if len(w.slots) == 0 {
		return &record{psn: p, times: 1} // no room: it is forgotten at once
	}
	r := &w.slots[int(p)&(len(w.slots)-1)]
	*r = record{psn: p, times: 1}
	return r
}

// grow makes room, if there is some left of what all windows may have.
func (w *window) grow(n int) bool {
	if w.a.records+n-len(w.slots) > w.a.opt.MaxRecords {
		return false
	}
	w.a.records += n - len(w.slots)
	w.a.steps += int64(n)
	old := w.slots
	w.slots = make([]record, n)
	for i := range old {
		if old[i].times > 0 {
			w.slots[int(old[i].psn)&(n-1)] = old[i]
		}
	}
	return true
}

// forget empties the window.
func (w *window) forget() {
	w.a.records -= len(w.slots)
	w.slots = nil
}
