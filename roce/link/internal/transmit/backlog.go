package transmit

import (
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
)

// BacklogBytes bounds what waits for sockets to take more.
const BacklogBytes = 4 << 20

// backlog holds copies of datagrams that the socket had no room for. While it holds any, the device
// makes no more packets, so it stays small: at most the packets of one Send.
type backlog struct {
	items []waiting
	head  int
	buf   []byte
	of    []*edge.Path // of each packet

	// For sending from contiguous memory.
	hdr     [1]sockio.Mmsghdr
	iov     [2]unix.Iovec
	front   [sockio.MaxReserve]byte
	control []byte
}

type waiting struct {
	route   *Route
	off, n  int // of the UDP payload, in buf
	segment int // size of the packets; 0 for a single packet
	of      int // index of the first in backlog.of
	packets int
	singly  bool // segmentation was refused: packet by packet
	done    int  // packets that went out singly
	long    bool // some were too long even so
}

// Waiting returns how many bytes wait.
func (t *Sender) Waiting() int { return len(t.backlog.buf) }

// postpone copies a message to the backlog, or drops it if that is full.
func (t *Sender) postpone(m *message) {
	b := &t.backlog
	if len(b.buf)+m.Size > BacklogBytes {
		t.Stats.Dropped.Add(uint64(m.Packets))
		return
	}
	t.wait(m.Path, t.batch.Paths(m), len(b.buf)+m.Path.Front, m.Size, m.SegmentSize())
	b.buf = t.batch.Gather(b.buf, m)
}

// wait enters a datagram whose UDP payload is in the buffer, or about to be.
func (t *Sender) wait(r *Route, of []*edge.Path, off, n, segment int) {
	b := &t.backlog
	b.items = append(b.items, waiting{route: r, off: off, n: n, segment: segment, of: len(b.of), packets: len(of)})
	b.of = append(b.of, of...)
}

// SendPacket sends a complete packet, BTH through ICRC, after those that wait.
func (t *Sender) SendPacket(r *Route, of *edge.Path, data []byte) {
	errno := unix.EAGAIN
	if !t.blocked.Load() {
		errno = t.sendOne(r, data, 0)
	}
	switch errno {
	case 0:
		t.Stats.Sent(1, 1, len(data))
	case unix.EAGAIN:
		b := &t.backlog
		t.block(r.FD)
		t.wait(r, []*edge.Path{of}, len(b.buf), len(data), 0)
		b.buf = append(b.buf, data...)
	default:
		t.o.Lost([]*edge.Path{of}, errno)
	}
}

// retryBacklog sends waiting datagrams until the socket is full again.
func (t *Sender) retryBacklog() {
	b := &t.backlog
	for ; b.head < len(b.items); b.head++ {
		w := &b.items[b.head]
		errno := t.sendWhole(w)
		if w.singly {
			errno = t.sendSingly(w)
		}
		if errno == unix.EAGAIN {
			t.Stats.Blocked.Add(1)
			t.Full.Store(int32(w.route.FD))
			return
		}
	}
	clear(b.items)
	clear(b.of)
	b.items, b.head, b.buf, b.of = b.items[:0], 0, b.buf[:0], b.of[:0]
	t.blocked.Store(false)
}

// sendWhole sends a datagram of the backlog, or finds that it must go packet by packet.
func (t *Sender) sendWhole(w *waiting) unix.Errno {
	if w.singly {
		return 0
	}
	errno := t.sendOne(w.route, t.backlog.buf[w.off:w.off+w.n], w.segment)
	switch {
	case errno == 0:
		t.Stats.Sent(1, w.packets, w.n)
	case errno == unix.EAGAIN:
	case w.packets > 1 && refusesSegments(errno):
		w.singly = true
	default:
		t.o.Lost(t.backlog.of[w.of:w.of+w.packets], errno)
	}
	return errno
}

// refusesSegments reports whether an error may concern segmentation rather than the datagram: EIO
// from drivers without checksum offload, EINVAL for too many or too long segments and for a virtio
// header that the kernel refuses, EMSGSIZE for excess length.
func refusesSegments(e unix.Errno) bool {
	return e == unix.EIO || e == unix.EINVAL || e == unix.EMSGSIZE || e == unix.EOPNOTSUPP
}

// sendSingly sends a datagram of the backlog that was refused with segmentation, packet by packet,
// as far as the socket has room. If that works, segmentation was the cause, and is switched off, or
// limited to the number of segments that older kernels allow; unless some packets were too long for
// the path.
func (t *Sender) sendSingly(w *waiting) unix.Errno {
	for w.n > 0 {
		n := min(w.segment, w.n)
		of := t.backlog.of[w.of:]
		pkt := t.backlog.buf[w.off : w.off+n]
		// Each is now the first of its datagram, so its identification is 0.
		w.route.ICRC.Renew(pkt)
		switch errno := t.sendOne(w.route, pkt, 0); errno {
		case 0:
			t.Stats.Sent(1, 1, n)
			w.done++
		case unix.EAGAIN:
			return unix.EAGAIN
		default:
			t.o.Lost(of[:1], errno)
			w.long = w.long || errno == unix.EMSGSIZE
		}
		w.off, w.n, w.of = w.off+n, w.n-n, w.of+1
	}
	if w.done == 0 || w.long || !t.GSO.Load() {
		return 0
	}
	t.Stats.Fallbacks.Add(1)
	if w.packets > sockio.MaxSegmentsOld {
		// Perhaps there were too many; if not, a shorter datagram will tell.
		t.MaxSegs = sockio.MaxSegmentsOld
	} else {
		t.GSO.Store(false)
	}
	return 0
}

// sendOne sends a datagram from contiguous memory.
func (t *Sender) sendOne(r *Route, data []byte, segment int) unix.Errno {
	b := &t.backlog
	front, n := b.front[:r.Front], 0
	if r.Front > 0 {
		b.iov[0].Base = &front[0]
		b.iov[0].SetLen(r.Front)
		n = 1
	}
	b.iov[n].Base = &data[0]
	b.iov[n].SetLen(len(data))
	h := &b.hdr[0].Hdr
	h.Iov = &b.iov[0]
	h.SetIovlen(n + 1)
	r.Own.Fill(h, front, b.control, len(data), segment)
	for {
		_, errno := t.Sendmmsg(r.FD, b.hdr[:])
		t.Stats.Calls.Add(1)
		if errno != unix.EINTR {
			b.iov[n].Base = nil
			return errno
		}
	}
}
