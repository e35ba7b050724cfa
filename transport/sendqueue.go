package transport

import "github.com/goroce/goroce/ib"

// wqeState is the progress of a send work request.
type wqeState uint8

const (
	wqePosted  wqeState = iota // not begun
	wqeBegun                   // checked, with PSNs assigned
	wqeLocal                   // an executed local operation
	wqeRefused                 // failed before it was sent; waits until it is the oldest
)

// sendWQE is one send work request as posted, with the requester's state.
type sendWQE struct {
	id     uint64
	addr   uint64 // remote address
	arg    uint64 // compare or addend; FLUSH: FETH
	swap   uint64 // swap value; ATOMIC WRITE: the value, if the field value is set
	ah     *AH    // UD
	length uint32 // bytes of payload, of the READ, or of the FLUSH range
	rkey   uint32 // remote key; UD: Q_Key
	imm    uint32 // immediate, key to invalidate; UD: see dest
	dest   uint32 // UD: remote QPN
	psn    ib.PSN // of the first packet
	npkts  uint32 // PSNs it takes; 0 for local operations
	vendor uint32 // wqeRefused: why
	number ib.MSN // number of its message, as the responder counts
	op     WROpcode
	flags  SendFlags
	state  wqeState
	status WCStatus // wqeRefused: the completion status
	nsge   uint8
	inline bool // the payload is in the slot's inline buffer
	value  bool // ATOMIC WRITE: the payload is in swap
	apart  bool // WRITE, READ: each packet is a message of its own
}

// signaled reports whether success produces a completion.
func (sq *requester) signaled(w *sendWQE) bool {
	return w.flags&SendSignaled != 0 || sq.qp.sigAll
}

// sendQueue holds the posted work requests in a ring. Separate arrays hold what only some requests
// have: scatter/gather lists, inline data, windows to bind. The queue is empty until the first
// request and grows up to the QP's size, so that an idle QP is small and a busy one does not
// allocate.
//
// Requests between head and cur have been handed out for transmission; cur is being sent, and the
// rest up to tail waits.
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
