package packet

import (
	"math/rand/v2"
	"os"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/wire"
)

type message = sockio.Message[*path]

// sender is the sending side of the link.
type sender struct {
	l       *Link
	fd      int
	sndbuf  int
	gso     atomic.Bool
	maxSegs int
	// sendmmsg is sockio.Send, and something that fails in tests.
	sendmmsg func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno)

	batch  *sockio.Batch[*path]
	fronts [][]byte // room for the headers of the messages
	hdrs   []sockio.Mmsghdr

	single  []byte // a frame gathered, to be sent packet by packet
	backlog backlog
	blocked atomic.Bool

	adding bool // packets are being added to the batch
	begin  func(*path, int) *message
	sends  uint64 // batches so far

	paths map[frame.Flow]*path
	light uint16 // port of paths that are light; links of one address differ in it, so that these are spread

	unresolved transmit.UnresolvedQueue[*path]
	stats      transmit.Counters
}

func (t *sender) init(l *Link) error {
	t.l = l
	t.unresolved.Init(&t.stats, t.sendResolved)
	if err := setVnet(t.fd); err != nil {
		return &link.OpenError{Hint: "this kernel is too old: use the udp link", Err: err}
	}
	t.sndbuf = sockio.GrowBuffer(t.fd, l.bufferBytes(), unix.SO_SNDBUF, unix.SO_SNDBUFFORCE)
	t.maxSegs = sockio.MaxSegments
	t.sendmmsg = sockio.Send
	t.batch = sockio.NewBatch[*path]()
	t.begin = t.beginMessage
	t.paths = make(map[frame.Flow]*path)
	t.light = firstPort | uint16(rand.IntN(sourcePorts))
	t.fronts = make([][]byte, 0, sockio.BatchPackets)
	t.hdrs = make([]sockio.Mmsghdr, sockio.BatchPackets)
	t.gso.Store(!l.opts.DisableGSO)
	return nil
}

// Blocked reports whether packets wait for the socket, or can go now that a
// neighbour is known.
func (l *Link) Blocked() bool { return l.tx.blocked.Load() || l.tx.unresolved.Due() }

// Send sends the packets, and first what waits; see [link.Link].
func (l *Link) Send(batch []wire.TxPacket) {
	t := &l.tx
	if l.local.Life.Err() != nil {
		t.stats.Dropped.Add(uint64(len(batch))) // the descriptor may be somebody else's by now
		return
	}
	if t.blocked.Load() {
		t.retryBacklog()
	}
	if t.unresolved.Due() {
		t.unresolved.Retry()
	}
	done := false
	defer func() {
		if !done {
			t.abandon()
		}
	}()
	for len(batch) > 0 {
		n := min(len(batch), sockio.BatchPackets)
		t.adding = true
		if t.gso.Load() && sockio.Several(batch[:n]) {
			t.sends++
			for i := range batch[:n] {
				t.sort(&batch[i])
			}
			t.batch.Build(t.begin, (*path).renumber)
		} else {
			for i := range batch[:n] {
				t.add(&batch[i])
			}
		}
		t.adding = false
		t.submit()
		batch = batch[n:]
	}
	done = true
}

// abandon is for a Send that was left by a panic, for memory that is not there. What
// was before that is sent.
func (t *sender) abandon() {
	defer t.reset()
	if t.adding {
		t.adding = false
		if len(t.batch.Msgs) == 0 {
			t.batch.Build(t.begin, (*path).renumber)
		}
		if m := t.batch.Last(); m != nil {
			t.stats.Dropped.Add(uint64(t.batch.DropBroken(m.Path.headLen)))
		}
		t.submit()
	}
}

// reset empties the batch.
func (t *sender) reset() {
	t.batch.Reset()
	t.fronts = t.fronts[:0]
}

// add appends a packet to the current message or begins another.
func (t *sender) add(p *wire.TxPacket) {
	ps := t.pathOf(p.Path)
	if ps == nil {
		t.stats.Lost(p.Path, 1)
		return
	}
	size := p.UDPPayloadLen()
	m := t.batch.Last()
	// What the packet before could do, in the same call of Send, this one can.
	if (m == nil || m.Path != ps || size > ps.Most) && !t.unresolved.Admit(ps, p, size) {
		return
	}
	fits := t.gso.Load() && t.batch.Fits(m, ps, p, size, t.maxSegs, ps.limit)
	id := uint16(0) // segments are numbered up from the identification of the frame, 0
	if fits {
		id = uint16(m.Packets)
	}
	icrc := ps.ICRC.Of(p, id) // before the batch is touched: the payload may not be there
	if !fits {
		m = t.beginMessage(ps, size)
	}
	t.batch.Add(m, p, size, icrc)
}

func (t *sender) beginMessage(ps *path, size int) *message {
	m, front := t.batch.Begin(ps, size, ps.headLen)
	t.fronts = append(t.fronts, front)
	return m
}

// sort chooses a frame for a packet, of a batch of packets of several paths.
func (t *sender) sort(p *wire.TxPacket) {
	ps := t.pathOf(p.Path)
	if ps == nil {
		t.stats.Lost(p.Path, 1)
		return
	}
	size := p.UDPPayloadLen()
	if ps.sent != t.sends || size > ps.Most {
		if !t.unresolved.Admit(ps, p, size) {
			return
		}
		ps.sent = t.sends
	}
	k, index := t.batch.Place(ps, ps.hash, p, size, t.maxSegs, ps.limit)
	icrc := ps.ICRC.Of(p, uint16(index)) // before it is there: the payload may not be
	t.batch.Take(k, p, size, icrc)
}

// renumber is the ICRC of a packet with another index in its datagram.
func (ps *path) renumber(p *wire.TxPacket, index int) uint32 {
	return ps.ICRC.Of(p, uint16(index)) // no payload that may not be there
}

// submit sends the messages that were made.
func (t *sender) submit() {
	msgs := t.batch.Msgs
	for k := range msgs {
		m := &msgs[k]
		m.Path.putHead(t.fronts[k], m.Size, m.SegmentSize())
		h := &t.hdrs[k].Hdr
		h.Name, h.Namelen = m.Path.name.bytes(), unix.SizeofSockaddrLinklayer
		t.batch.SetIov(h, m)
	}
	for i := 0; i < len(msgs); {
		if t.blocked.Load() {
			t.postpone(&msgs[i])
			i++
			continue
		}
		n, errno := t.sendmmsg(t.fd, t.hdrs[i:len(msgs)])
		t.stats.Calls.Add(1)
		if n > 0 {
			packets, bytes := t.batch.Total(i, n)
			t.stats.Sent(n, packets, bytes)
			i += n
			continue
		}
		m := &msgs[i]
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			t.stats.Blocked.Add(1)
			t.blocked.Store(true)
		case m.Packets > 1 && refusesSegments(errno):
			t.single = t.batch.Gather(t.single[:0], m)
			t.sendSingly(m.Path, t.batch.Paths(m), t.single[m.Path.headLen:], m.Segment)
			i++
		case errno == unix.EFAULT:
			t.stats.Dropped.Add(uint64(m.Packets))
			t.batch.Touch(m) // a payload is not there
			i++
		default:
			t.lost(t.batch.Paths(m), errno)
			i++
		}
	}
	t.reset()
}

// lost counts packets of paths that the kernel did not take. The transport will see a
// loss. A socket that is not there any more ends the link.
func (t *sender) lost(of []*wire.Path, errno unix.Errno) {
	if sockio.Dead(errno) {
		t.l.local.Fail(os.NewSyscallError("sendmmsg", errno))
	}
	for _, p := range of {
		switch errno {
		case unix.ENETDOWN, unix.ENXIO, unix.ENODEV:
			t.stats.Lost(p, 1) // the interface is down or gone
		case unix.EMSGSIZE:
			t.stats.TooLong(p, 1) // the interface knows before the hop does
		default:
			t.stats.Dropped.Add(1)
		}
	}
}

// sendResolved sends a packet that waited for its neighbour.
func (t *sender) sendResolved(p *path, of *wire.Path, data []byte) {
	errno := unix.EAGAIN
	if !t.blocked.Load() {
		errno = t.sendOne(p, data, 0)
	}
	switch errno {
	case 0:
		t.stats.Sent(1, 1, len(data))
	case unix.EAGAIN:
		t.blocked.Store(true)
		t.postponeBytes(p, []*wire.Path{of}, data, 0)
	default:
		t.lost([]*wire.Path{of}, errno)
	}
}
