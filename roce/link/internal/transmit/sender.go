package transmit

import (
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
)

// Sender is the sending side of links that send datagrams by sendmmsg, with many packets in one
// datagram if the kernel cuts it up again (GSO). The packets of each path stay in order.
type Sender struct {
	Stats Counters
	// GSO says that the kernel cuts up datagrams, of up to MaxSegs packets. Both are learned.
	GSO     atomic.Bool
	MaxSegs int
	// Full is the socket that would not take more, while Blocked.
	Full    atomic.Int32
	blocked atomic.Bool
	// Sendmmsg is sockio.Send; tests replace it by a function that fails.
	Sendmmsg func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno)

	o       Sends
	batch   *sockio.Batch[*Route]
	hdrs    []sockio.Mmsghdr
	control []byte // of each header
	adding  bool   // packets are being added to the batch
	sends   uint64 // batches so far
	refused bool   // a datagram in the backlog was refused with segmentation
	begin   func(*Route, int) *message
	lost    [1]*edge.Path

	lanes  []int // one for each socket: see bySocket
	sorted []message

	backlog backlog
}

type message = sockio.Message[*Route]

// Sends is what a link provides to its Sender.
type Sends struct {
	// Route makes the route of a path; nil: nothing can be sent on it.
	Route func(p *edge.Path) *Route
	// Admit, if set, reports whether a packet of size bytes can go by a route now, and handles one
	// that cannot. Its answer also holds for later packets of the batch, unless they are longer
	// than Most.
	Admit func(r *Route, p *edge.TxPacket, size int) bool
	// Lost counts packets that the kernel did not take, or that have no route (ENETUNREACH).
	Lost func(of []*edge.Path, errno unix.Errno)
	// Lanes is how many sockets there are, Control how many bytes of control messages a datagram
	// may need.
	Lanes, Control int
}

// Init prepares to send.
func (t *Sender) Init(o Sends) {
	t.o = o
	t.MaxSegs = sockio.MaxSegments
	t.Sendmmsg = sockio.Send
	t.batch = sockio.NewBatch[*Route]()
	t.begin = func(r *Route, size int) *message { return t.batch.Begin(r, size, r.Front) }
	t.hdrs = make([]sockio.Mmsghdr, sockio.BatchPackets)
	t.control = make([]byte, sockio.BatchPackets*o.Control)
	if o.Lanes > 1 {
		t.lanes, t.sorted = make([]int, o.Lanes), make([]message, sockio.BatchPackets)
	}
	t.backlog.control = make([]byte, o.Control)
}

// Blocked reports whether packets wait for a socket.
func (t *Sender) Blocked() bool { return t.blocked.Load() }

// Retry sends what waits, as far as the sockets take it.
func (t *Sender) Retry() {
	if t.blocked.Load() {
		t.retryBacklog()
	}
}

// Send sends the packets; see link.Link. Retry must have sent what waits.
func (t *Sender) Send(batch []edge.TxPacket) {
	done := false
	defer func() {
		if !done {
			t.abandon()
		}
	}()
	for len(batch) > 0 {
		n := min(len(batch), sockio.BatchPackets)
		t.adding = true
		if t.GSO.Load() && sockio.Several(batch[:n]) {
			t.sends++
			for i := range batch[:n] {
				t.sort(&batch[i])
			}
			t.batch.Build(t.begin, (*Route).renumber)
		} else {
			for i := range batch[:n] {
				t.add(&batch[i])
			}
		}
		t.adding = false
		t.submit()
		if t.refused {
			t.refused = false
			t.retryBacklog()
		}
		batch = batch[n:]
	}
	done = true
}

// abandon ends a Send interrupted by a panic for memory that is gone. It sends what came before.
func (t *Sender) abandon() {
	defer t.batch.Reset()
	if t.adding {
		if len(t.batch.Msgs) == 0 {
			t.batch.Build(t.begin, (*Route).renumber)
		}
		if m := t.batch.Last(); m != nil {
			t.Stats.Dropped.Add(uint64(t.batch.DropBroken(m.Path.Front)))
		}
		t.submit()
	}
}

// noRoute counts a packet on a path without a route.
func (t *Sender) noRoute(p *edge.Path) {
	t.lost[0] = p
	t.o.Lost(t.lost[:], unix.ENETUNREACH)
	t.lost[0] = nil
}

// add appends a packet to the current message or starts another.
func (t *Sender) add(p *edge.TxPacket) {
	r := t.RouteOf(p.Path)
	if r == nil {
		t.noRoute(p.Path)
		return
	}
	size := p.UDPPayloadLen()
	m := t.batch.Last()
	if t.o.Admit != nil && (m == nil || m.Path != r || size > r.Most) && !t.o.Admit(r, p, size) {
		return
	}
	fits := t.GSO.Load() && t.batch.Fits(m, r, p, size, t.MaxSegs, r.Limit)
	id := uint16(0) // the packets of a datagram are numbered from 0
	if fits {
		id = uint16(m.Packets)
	}
	icrc := r.ICRC.Of(p, id) // before the batch is touched: the payload may be gone
	if !fits {
		m = t.batch.Begin(r, size, r.Front)
	}
	t.batch.Add(m, p, size, icrc)
}

// sort chooses a datagram for a packet in a batch of several paths.
func (t *Sender) sort(p *edge.TxPacket) {
	r := t.RouteOf(p.Path)
	if r == nil {
		t.noRoute(p.Path)
		return
	}
	size := p.UDPPayloadLen()
	if t.o.Admit != nil && (r.sent != t.sends || size > r.Most) {
		if !t.o.Admit(r, p, size) {
			return
		}
		r.sent = t.sends
	}
	k, index := t.batch.Place(r, r.hash, p, size, t.MaxSegs, r.Limit)
	icrc := r.ICRC.Of(p, uint16(index)) // before it is taken: the payload may be gone
	t.batch.Take(k, p, size, icrc)
}

// renumber returns the ICRC of a packet with another index in its datagram.
func (r *Route) renumber(p *edge.TxPacket, index int) uint32 {
	return r.ICRC.Of(p, uint16(index)) // it has no payload that may be gone
}

// maxErrorTries is how often to repeat a send that failed with an error of another.
const maxErrorTries = 8

// submit sends the messages of the batch.
func (t *Sender) submit() {
	t.bySocket()
	msgs := t.batch.Msgs
	for i := 0; i < len(msgs); {
		fd := msgs[i].Path.FD
		j := i + 1
		for j < len(msgs) && msgs[j].Path.FD == fd {
			j++
		}
		t.submitTo(fd, i, j)
		i = j
	}
	t.batch.Reset()
}

// bySocket sorts the messages of the batch by socket, so that each socket needs one call. All
// messages of one socket, and so of one path, stay in order.
func (t *Sender) bySocket() {
	msgs := t.batch.Msgs
	changes := 0
	for i := 1; i < len(msgs); i++ {
		if msgs[i].Path.FD != msgs[i-1].Path.FD {
			changes++
		}
	}
	if changes < 2 {
		return
	}
	clear(t.lanes)
	for i := range msgs {
		t.lanes[msgs[i].Path.Lane]++
	}
	at := 0
	for k, n := range t.lanes {
		t.lanes[k] = at
		at += n
	}
	for i := range msgs {
		lane := msgs[i].Path.Lane
		t.sorted[t.lanes[lane]] = msgs[i]
		t.lanes[lane]++
	}
	copy(msgs, t.sorted)
}

// submitTo sends messages i to j-1, which leave by one socket.
func (t *Sender) submitTo(fd, i, j int) {
	for k := i; k < j; k++ {
		t.fill(k)
	}
	for tries := 0; i < j; {
		if t.blocked.Load() {
			for ; i < j; i++ {
				t.postpone(&t.batch.Msgs[i])
			}
			return
		}
		n, errno := t.Sendmmsg(fd, t.hdrs[i:j])
		t.Stats.Calls.Add(1)
		if n > 0 {
			packets, bytes := t.batch.Total(i, n)
			t.Stats.Sent(n, packets, bytes)
			i += n
			continue
		}
		m := &t.batch.Msgs[i]
		switch {
		case errno == unix.EINTR:
		case m.Path.Errors && tries < maxErrorTries && asynchronous(errno):
			tries++ // about an earlier datagram
		case errno == unix.EAGAIN:
			t.Stats.Blocked.Add(1)
			t.block(fd)
		case m.Packets > 1 && refusesSegments(errno):
			// It goes out packet by packet, from the backlog because the socket may fill up
			// meanwhile, and later messages wait their turn there.
			t.block(fd)
			t.refused = true
			t.postpone(m)
			i++
		case errno == unix.EFAULT:
			t.Stats.Dropped.Add(uint64(m.Packets))
			t.batch.Touch(m) // a payload is gone
			i++
		default:
			t.o.Lost(t.batch.Paths(m), errno)
			i++
		}
	}
}

// block records that a socket takes no more.
func (t *Sender) block(fd int) {
	t.Full.Store(int32(fd))
	t.blocked.Store(true)
}

// asynchronous reports whether an error may be that of an ICMP message.
func asynchronous(errno unix.Errno) bool {
	return errno == unix.ECONNREFUSED || errno == unix.EHOSTUNREACH || errno == unix.ENETUNREACH || errno == unix.EPROTO
}

// fill prepares the header of message k.
func (t *Sender) fill(k int) {
	m := &t.batch.Msgs[k]
	h := &t.hdrs[k].Hdr
	t.batch.SetIov(h, m)
	n := t.o.Control
	m.Path.Own.Fill(h, t.batch.Front(m, m.Path.Front), t.control[k*n:][:n], m.Size, m.SegmentSize())
}
