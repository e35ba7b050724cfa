package sockio

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/edge"
)

// Message is a datagram under construction: a run of packets of one flow, P. All packets are of
// Segment bytes, except that the last may be shorter.
type Message[P comparable] struct {
	Path    P
	Size    int // UDP payload so far, bytes
	Segment int // size of the packets except the last, bytes
	Packets int

	iov0  int // first iovec
	iovs  int
	of0   int  // first of Batch.of
	short bool // the last packet was shorter: nothing can follow
}

// SegmentSize returns the segment size for segmentation offload; 0 for a message of one packet,
// which needs none.
func (m *Message[P]) SegmentSize() int {
	if m.Packets > 1 {
		return m.Segment
	}
	return 0
}

// Batch gathers packets into messages. It copies headers, ICRCs and small payloads into an arena,
// and refers to larger payloads in place.
type Batch[P comparable] struct {
	Msgs []Message[P]

	arena []byte
	used  int
	iovs  []unix.Iovec
	nIov  int
	of    []*edge.Path // of each packet

	sorted runs[P] // see runs.go

	touched byte // written by Touch, to make it read
}

// NewBatch returns a Batch for up to BatchPackets packets between Resets.
func NewBatch[P comparable]() *Batch[P] {
	return &Batch[P]{
		Msgs:  make([]Message[P], 0, BatchPackets),
		arena: make([]byte, BatchPackets*arenaPerPacket),
		iovs:  make([]unix.Iovec, BatchPackets*iovsPerPacket),
		of:    make([]*edge.Path, 0, BatchPackets),
		sorted: runs[P]{
			runs: make([]run[P], 0, BatchPackets), packets: make([]placed, 0, BatchPackets), batch: 1,
		},
	}
}

// Last returns the current message, or nil.
func (t *Batch[P]) Last() *Message[P] {
	if len(t.Msgs) == 0 {
		return nil
	}
	return &t.Msgs[len(t.Msgs)-1]
}

// Paths returns the path of each packet of a message.
func (t *Batch[P]) Paths(m *Message[P]) []*edge.Path { return t.of[m.of0 : m.of0+m.Packets] }

// Total returns how many packets and bytes are in the n messages from i on.
func (t *Batch[P]) Total(i, n int) (packets, bytes int) {
	for k := range t.Msgs[i : i+n] {
		packets += t.Msgs[i+k].Packets
		bytes += t.Msgs[i+k].Size
	}
	return packets, bytes
}

// Fits reports whether a packet of size bytes (BTH through ICRC) can be the next segment of a
// message, which takes at most segs segments and limit bytes. m may be nil.
func (t *Batch[P]) Fits(m *Message[P], path P, p *edge.TxPacket, size, segs, limit int) bool {
	return m != nil && m.Path == path && !m.short &&
		size <= m.Segment && m.Packets < segs && m.Size+size <= limit &&
		m.iovs+1+2+int(p.NumFrags) <= maxIovs
}

// Begin starts a message whose first packet has size bytes. It begins with a front of reserve bytes
// for the caller to fill, until Reset.
func (t *Batch[P]) Begin(path P, size, reserve int) *Message[P] {
	t.Msgs = append(t.Msgs, Message[P]{Path: path, iov0: t.nIov, of0: len(t.of), Segment: size})
	m := t.Last()
	if reserve > 0 {
		t.refer(m, t.arena[t.used:t.used+reserve])
		t.used += reserve
	}
	return m
}

// Front returns the front of a message, of reserve bytes.
func (t *Batch[P]) Front(m *Message[P], reserve int) []byte {
	if reserve == 0 {
		return nil
	}
	return iovBytes(&t.iovs[m.iov0])[:reserve:reserve]
}

// Add appends a packet of size bytes with its ICRC to the last message.
func (t *Batch[P]) Add(m *Message[P], p *edge.TxPacket, size int, icrc uint32) {
	t.put(m, p.Headers())
	if int(p.PayloadLen) <= copyBytes {
		for _, f := range p.Frags[:p.NumFrags] {
			t.put(m, f)
		}
	} else {
		for _, f := range p.Frags[:p.NumFrags] {
			t.refer(m, f)
		}
	}
	var trailer [3 + ib.ICRCBytes]byte
	ib.PutICRC(trailer[p.Pad:], icrc)
	t.put(m, trailer[:int(p.Pad)+ib.ICRCBytes])

	t.of = append(t.of, p.Path)
	m.Packets++
	m.Size += size
	m.short = size < m.Segment
}

// put copies b into the arena, and extends the previous iovec if possible.
func (t *Batch[P]) put(m *Message[P], b []byte) {
	if len(b) == 0 {
		return
	}
	at := t.used
	t.used += copy(t.arena[at:], b)
	if m.iovs > 0 && at > 0 {
		last := &t.iovs[t.nIov-1]
		if continues(last, &t.arena[at]) {
			last.SetLen(int(last.Len) + len(b))
			return
		}
	}
	t.refer(m, t.arena[at:t.used])
}

// refer adds an iovec.
func (t *Batch[P]) refer(m *Message[P], b []byte) {
	if len(b) == 0 {
		return
	}
	v := &t.iovs[t.nIov]
	v.Base = &b[0]
	v.SetLen(len(b))
	t.nIov++
	m.iovs++
}

// SetIov makes h send the message.
func (t *Batch[P]) SetIov(h *unix.Msghdr, m *Message[P]) {
	h.Iov = &t.iovs[m.iov0]
	h.SetIovlen(m.iovs)
}

// Gather appends the bytes of a message, including its front, to b.
func (t *Batch[P]) Gather(b []byte, m *Message[P]) []byte {
	for i := m.iov0; i < m.iov0+m.iovs; i++ {
		b = append(b, iovBytes(&t.iovs[i])...)
	}
	return b
}

// Reset drops the messages. Iovecs of sent packets must not keep payloads alive; the arena may
// stay.
func (t *Batch[P]) Reset() {
	t.Msgs = t.Msgs[:0]
	clear(t.iovs[:t.nIov])
	clear(t.of)
	t.of = t.of[:0]
	t.forget()
	t.nIov, t.used = 0, 0
}
