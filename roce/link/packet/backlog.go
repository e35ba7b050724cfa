package packet

import (
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/wire"
)

// backlog holds copies of frames that the socket had no room for. While there
// is one the device makes no more packets, so it stays small: at most what one
// call of Send brought.
type backlog struct {
	items []waiting
	head  int
	buf   []byte
	of    []*wire.Path // of each packet

	// one is the message header for sending from contiguous memory.
	one struct {
		hdr [1]sockio.Mmsghdr
		iov [2]unix.Iovec
	}
	front [sockio.MaxReserve]byte
}

type waiting struct {
	path    *path
	off, n  int // UDP payload in buf
	segment int // 0 for a single packet
	of      int // first of backlog.of
	packets int
}

// postpone copies a message to the backlog, or drops it if that is full.
func (t *sender) postpone(m *message) {
	b := &t.backlog
	if len(b.buf)+m.Size > backlogBytes {
		t.stats.Dropped.Add(uint64(m.Packets))
		return
	}
	t.single = t.batch.Gather(t.single[:0], m)
	t.postponeBytes(m.Path, t.batch.Paths(m), t.single[m.Path.headLen:], m.SegmentSize())
}

func (t *sender) postponeBytes(p *path, of []*wire.Path, data []byte, segment int) {
	b := &t.backlog
	b.items = append(b.items, waiting{path: p, off: len(b.buf), n: len(data), segment: segment, of: len(b.of), packets: len(of)})
	b.of = append(b.of, of...)
	b.buf = append(b.buf, data...)
}

// retryBacklog sends what waits until the socket is full again.
func (t *sender) retryBacklog() {
	b := &t.backlog
	for ; b.head < len(b.items); b.head++ {
		w := &b.items[b.head]
		data, of := b.buf[w.off:w.off+w.n], b.of[w.of:w.of+w.packets]
		switch errno := t.sendOne(w.path, data, w.segment); {
		case errno == 0:
			t.stats.Sent(1, w.packets, w.n)
		case errno == unix.EAGAIN:
			return
		case w.packets > 1 && refusesSegments(errno):
			t.sendSingly(w.path, of, data, w.segment)
		default:
			t.lost(of, errno)
		}
	}
	clear(b.items)
	clear(b.of)
	b.items, b.head, b.buf, b.of = b.items[:0], 0, b.buf[:0], b.of[:0]
	t.blocked.Store(false)
}

// sendOne sends a frame of contiguous UDP payload.
func (t *sender) sendOne(p *path, data []byte, segment int) unix.Errno {
	o := &t.backlog.one
	front := t.backlog.front[:p.headLen]
	p.putHead(front, len(data), segment)
	o.iov[0].Base = &front[0]
	o.iov[0].SetLen(len(front))
	o.iov[1].Base = &data[0]
	o.iov[1].SetLen(len(data))
	h := &o.hdr[0].Hdr
	h.Name, h.Namelen = p.name.bytes(), unix.SizeofSockaddrLinklayer
	h.Iov = &o.iov[0]
	h.SetIovlen(2)
	for {
		_, errno := t.sendmmsg(t.fd, o.hdr[:])
		t.stats.Calls.Add(1)
		if errno != unix.EINTR {
			o.iov[1].Base = nil
			return errno
		}
	}
}
