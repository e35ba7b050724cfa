package packet

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport"
	"golang.org/x/sys/unix"
)

type message = sockio.Message[*path]

// sender is the sending side of the link.
type sender struct {
	l       *Link
	fd      int
	sndbuf  int
	gso     atomic.Bool
	maxSegs int

	batch  *sockio.Batch[*path]
	fronts [][]byte // room for the headers of the messages
	hdrs   []sockio.Mmsghdr

	single  []byte // a frame gathered, to be sent packet by packet
	backlog backlog
	blocked atomic.Bool

	hold  hold
	kept  atomic.Bool // something is on hold
	retry atomic.Bool // it is worth looking whether that can go

	stats txStats
}

type txStats struct {
	packets, bytes, datagrams, calls, blocked, dropped, unreachable, fallbacks atomic.Uint64
}

func (s *txStats) read(o *link.Stats) {
	o.TxPackets, o.TxBytes, o.TxDatagrams = s.packets.Load(), s.bytes.Load(), s.datagrams.Load()
	o.TxCalls, o.TxBlocked, o.TxDropped = s.calls.Load(), s.blocked.Load(), s.dropped.Load()
	o.TxUnreachable, o.GSOFallbacks = s.unreachable.Load(), s.fallbacks.Load()
}

func (t *sender) init(l *Link) error {
	t.l = l
	if err := setVnet(t.fd); err != nil {
		return &OpenError{Hint: "this kernel is too old: use the udp link", Err: err}
	}
	t.sndbuf = sockio.GrowBuffer(t.fd, l.bufferBytes(), unix.SO_SNDBUF, unix.SO_SNDBUFFORCE)
	t.maxSegs = sockio.MaxSegments
	t.batch = sockio.NewBatch[*path]()
	t.fronts = make([][]byte, 0, sockio.BatchPackets)
	t.hdrs = make([]sockio.Mmsghdr, sockio.BatchPackets)
	t.gso.Store(!l.opts.DisableGSO)
	return nil
}

// Backlog reports whether packets wait for the socket, or can go now that a
// neighbour is known.
func (l *Link) Backlog() bool { return l.tx.blocked.Load() || l.tx.retry.Load() }

// Send sends the packets, and first what waits; see [link.Link].
func (l *Link) Send(batch []transport.TxPacket) {
	t := &l.tx
	if t.blocked.Load() {
		t.retryBacklog()
	}
	if t.retry.Load() {
		t.retryHold()
	}
	for len(batch) > 0 {
		n := min(len(batch), sockio.BatchPackets)
		for i := range batch[:n] {
			t.add(&batch[i])
		}
		t.submit()
		batch = batch[n:]
	}
}

// add appends a packet to the current message or begins another.
func (t *sender) add(p *transport.TxPacket) {
	ps := t.pathOf(p.Path)
	if ps == nil {
		t.unreachable(p.Path, 1)
		return
	}
	size := p.UDPPayloadLen()
	m := t.batch.Last()
	if m == nil || m.Path != ps {
		switch ps.refresh() {
		case nexthop.Ready:
			if ps.held > 0 {
				t.retryHold()
			}
		case nexthop.Pending:
			t.keep(ps, p, size)
			return
		default:
			t.unreachable(p.Path, 1)
			return
		}
	}
	if size > ps.most {
		t.stats.dropped.Add(1) // the network would have to fragment it
		return
	}
	if !t.gso.Load() || !t.batch.Fits(m, ps, p, size, t.maxSegs, ps.limit) {
		var front []byte
		m, front = t.batch.Begin(ps, size, ps.headLen)
		t.fronts = append(t.fronts, front)
	}
	id := uint16(m.Packets) // segments are numbered up from the identification of the frame, 0
	t.batch.Add(m, p, size, t.checksum(ps, p, id))
}

func (t *sender) checksum(ps *path, p *transport.TxPacket, id uint16) uint32 {
	if t.l.opts.RxeFlush && ib.Opcode(p.Header[0]) == ib.RCFlush {
		var b [ib.MaxHeaderBytes]byte
		return ps.icrc.ChecksumFlushRxe(id, b[:copy(b[:], p.Headers())])
	}
	return link.PacketICRC(&ps.icrc, p, id)
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
		n, errno := sockio.Send(t.fd, t.hdrs[i:len(msgs)])
		t.stats.calls.Add(1)
		if n > 0 {
			for k := i; k < i+n; k++ {
				t.sent(msgs[k].Packets, msgs[k].Size)
			}
			i += n
			continue
		}
		m := &msgs[i]
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			t.stats.blocked.Add(1)
			t.blocked.Store(true)
		case m.Packets > 1 && refusesSegments(errno):
			t.single = t.batch.Gather(t.single[:0], m)
			t.sendSingly(m.Path, t.single[m.Path.headLen:], m.Segment)
			i++
		default:
			t.lost(m.Path, errno, m.Packets)
			i++
		}
	}
	t.batch.Reset()
	t.fronts = t.fronts[:0]
}

func (t *sender) sent(packets, bytes int) {
	t.stats.datagrams.Add(1)
	t.stats.packets.Add(uint64(packets))
	t.stats.bytes.Add(uint64(bytes))
}

// lost counts packets that the kernel did not take. The transport will see a
// loss.
func (t *sender) lost(p *path, errno unix.Errno, packets int) {
	switch errno {
	case unix.ENETDOWN, unix.ENXIO, unix.ENODEV:
		t.unreachable(p.of, packets) // the interface is down or gone
	default:
		t.stats.dropped.Add(uint64(packets))
	}
}

// unreachable counts packets that can go nowhere at the moment.
func (t *sender) unreachable(p *transport.Path, packets int) {
	p.Unreachable += uint64(packets)
	t.stats.dropped.Add(uint64(packets))
	t.stats.unreachable.Add(uint64(packets))
}
