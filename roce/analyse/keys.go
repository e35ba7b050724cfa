package analyse

import (
	"fmt"

	"github.com/goroce/goroce/ib"
)

// keptKeys is how many of the last keys are remembered.
const keptKeys = 16

// keys are those with which requests were carried out, and those that were taken back.
type keys struct {
	last [keptKeys]keyUse
	next int
}

// keyUse is what is known of a key.
type keyUse struct {
	rkey   ib.RKey
	frame  int    // of the last request with it that was carried out, 0 for none
	lo, hi uint64 // addresses that worked: [lo, hi)
	reads  bool   // what was carried out
	writes bool
	atomic bool
	taken  int // frame of the SEND that invalidated it
}

// find returns what is known of a key, nil if nothing is; 0 is no key.
func (k *keys) find(rkey ib.RKey) *keyUse {
	for i := range k.last {
		if rkey != 0 && k.last[i].rkey == rkey {
			return &k.last[i]
		}
	}
	return nil
}

// make returns the place for a key.
func (k *keys) make(rkey ib.RKey) *keyUse {
	if u := k.find(rkey); u != nil {
		return u
	}
	u := &k.last[k.next%keptKeys]
	*u = keyUse{rkey: rkey}
	k.next++
	return u
}

// worked notes that an operation with a key was carried out.
func (k *keys) worked(o *operation) {
	if o.rkey == 0 || o.memory() == 0 {
		return
	}
	u := k.make(o.rkey)
	if end := o.va + o.memory(); u.frame == 0 || u.taken != 0 {
		*u = keyUse{rkey: o.rkey, lo: o.va, hi: end}
	} else {
		u.lo, u.hi = min(u.lo, o.va), max(u.hi, end)
	}
	u.frame = o.frame
	switch {
	case o.op == ib.OpRead:
		u.reads = true
	case isAtomic(o.op):
		u.atomic = true
	default:
		u.writes = true
	}
}

// invalidated notes that a SEND takes a key of the responder back.
func (k *keys) invalidated(rkey ib.RKey, frame int) {
	if rkey != 0 {
		k.make(rkey).taken = frame
	}
}

// memory is how many bytes of the responder's memory an operation is for.
func (o *operation) memory() uint64 {
	if isAtomic(o.op) || o.op == ib.OpAtomicWrite {
		return ib.AtomicBytes
	}
	return uint64(o.readLen)
}

// Causes of a remote access error.
const (
	causeKey         = "key"
	causeRange       = "range"
	causeRight       = "right"
	causeInvalidated = "invalidated"
	causeGone        = "deregistered"
)

// why says why a request was refused, as far as what was carried out before tells, in a word and a
// sentence.
func (k *keys) why(o *operation) (cause, text string) {
	u := k.find(o.rkey)
	switch {
	case u == nil:
		return causeKey, " No request with this key has been carried out in this capture: the key is probably wrong."
	case u.taken > u.frame:
		return causeInvalidated, fmt.Sprintf(" The SEND in packet %d took this key back.", u.taken)
	}
	text = fmt.Sprintf(" The request in packet %d had the same key and was carried out:", u.frame)
	can := u.writes
	switch {
	case o.op == ib.OpRead:
		can = u.reads
	case isAtomic(o.op):
		can = u.atomic
	}
	switch end := o.va + o.memory(); {
	case o.va < u.lo || end > u.hi || end < o.va:
		text += fmt.Sprintf(" so it is probably the range. From 0x%x to 0x%x it worked; this one is for 0x%x to 0x%x.",
			u.lo, u.hi, o.va, end)
		if !can {
			text += " Nor was any operation of this kind carried out with it, so that it may be the right."
		}
		return causeRange, text
	case !can:
		return causeRight,
			text + " so it is probably the right. No operation of this kind was, and others were with these addresses."
	}
	return causeGone, text + " so was this very operation with these addresses. The region or window has probably been deregistered, or bound anew, since."
}

// adviceAccess is what to do, by cause.
var adviceAccess = map[string]string{
	causeKey:         "Compare the key with what the peer registered: was it sent in the right byte order, is it the rkey and not the lkey, is it of the same protection domain, has the region or window been deregistered since?",
	causeRange:       "The key is good. Compare address and length with the region that the peer registered: where does it end, and does the address count from there or is it an offset?",
	causeRight:       "The key is good. Compare the operation with the access flags of the region: a READ needs IBV_ACCESS_REMOTE_READ, a WRITE IBV_ACCESS_REMOTE_WRITE, an atomic IBV_ACCESS_REMOTE_ATOMIC.",
	causeInvalidated: "A key that SEND with invalidate has taken back is gone: the peer has to bind or register anew, and to tell the new key.",
	causeGone:        "The peer has let the region go while it was still in use. Tell the peer when the last request is complete, and deregister after that.",
}
