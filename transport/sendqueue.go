package transport

import "github.com/goroce/goroce/ib"

// wqeState is where a send work request stands.
type wqeState uint8

const (
	wqePosted  wqeState = iota // not begun
	wqeBegun                   // checked, and its PSNs are assigned
	wqeLocal                   // a local operation that was executed
	wqeRefused                 // failed before it was sent; waits to be the oldest
)

// sendWQE is one send work request, as it was posted, and what the requester
// knows about it.
type sendWQE struct {
	id     uint64
	addr   uint64 // remote address
	arg    uint64 // compare or addend; FLUSH: FETH
	swap   uint64 // swap; ATOMIC WRITE: the value, if isValue
	ah     *AH    // UD
	length uint32 // bytes of payload, of the READ, or of the FLUSH range
	rkey   uint32 // remote key; UD: Q_Key
	imm    uint32 // immediate, key to invalidate; UD: see dest
	dest   uint32 // UD: remote QPN
	psn    ib.PSN // of the first packet
	npkts  uint32 // PSNs it takes; 0 for local operations
	vendor uint32 // wqeRefused: why
	number ib.MSN // of its message, as the responder counts them
	op     WROpcode
	flags  SendFlags
	state  wqeState
	status WCStatus // wqeRefused: the completion status
	nsge   uint8
	inline bool // payload is in the slot's inline buffer
	value  bool // ATOMIC WRITE: payload is in swap
	apart  bool // WRITE, READ: each packet is a message
}

// signaled reports whether success makes a completion.
func (sq *requester) signaled(w *sendWQE) bool {
	return w.flags&SendSignaled != 0 || sq.qp.sigAll
}

// sendQueue holds the posted work requests in a ring, and beside it what only
// some of them have: scatter/gather lists, inline data, windows to bind. It is
// empty until the first request and grows up to the size that the QP was
// created with, so that an idle QP is small and a busy one does not allocate.
//
// Requests between head and cur have been handed out for transmission; cur is
// the one being sent, and everything from there to tail waits.
type sendQueue struct {
	head   uint32
	cur    uint32
	tail   uint32
	slots  []sendWQE // length is a power of two, or 0
	sges   []SGE     // MaxSendSGE for each slot
	inline []byte    // MaxInline for each slot, once any was used
	binds  []BindMW  // one for each slot, once any was used
}

func (q *sendQueue) mask() uint32 { return uint32(len(q.slots) - 1) }

func (q *sendQueue) at(i uint32) *sendWQE { return &q.slots[i&q.mask()] }

func (q *sendQueue) len() int { return int(q.tail - q.head) }

// grow doubles the ring.
func (q *sendQueue) grow(caps *QPCaps) {
	old := *q
	n := max(2*len(old.slots), minSendSlots)
	q.slots = make([]sendWQE, n)
	if caps.MaxSendSGE > 0 {
		q.sges = make([]SGE, n*caps.MaxSendSGE)
	}
	if old.inline != nil {
		q.inline = make([]byte, n*caps.MaxInline)
	}
	if old.binds != nil {
		q.binds = make([]BindMW, n)
	}
	for i := old.head; i != old.tail; i++ {
		*q.at(i) = *old.at(i)
		copy(q.sgesOf(i, caps), old.sgesOf(i, caps))
		if old.inline != nil {
			copy(q.inlineOf(i, caps), old.inlineOf(i, caps))
		}
		if old.binds != nil {
			*q.bindOf(i) = *old.bindOf(i)
		}
	}
}

// sgesOf returns the room of slot i for its scatter/gather list.
func (q *sendQueue) sgesOf(i uint32, caps *QPCaps) []SGE {
	n := caps.MaxSendSGE
	at := int(i&q.mask()) * n
	return q.sges[at : at+n : at+n]
}

// inlineOf returns the room of slot i for inline data.
func (q *sendQueue) inlineOf(i uint32, caps *QPCaps) []byte {
	n := caps.MaxInline
	at := int(i&q.mask()) * n
	return q.inline[at : at+n : at+n]
}

func (q *sendQueue) bindOf(i uint32) *BindMW { return &q.binds[i&q.mask()] }
