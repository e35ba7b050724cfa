package udp

import (
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/wire"
)

// backlog holds copies of datagrams that the socket had no room for. While
// there is one the device makes no more packets, so it stays small: at most
// what one call of Send brought.
type backlog struct {
	items []waiting
	head  int
	buf   []byte
	of    []*wire.Path // of each packet

	// one is the message header for sending from contiguous memory.
	one struct {
		hdr [1]sockio.Mmsghdr
		iov unix.Iovec
		ctl [txControl]byte
	}
}

type waiting struct {
	path    *path
	off, n  int // in buf
	segment int // size of the packets; 0 for a single packet
	of      int // first of backlog.of
	packets int
	singly  bool // segmentation was refused: packet by packet
	done    int  // packets that went out singly
	long    bool // others were too long even so
}

// postpone copies a message to the backlog, or drops it if that is full.
func (t *sender) postpone(m *message) {
	b := &t.backlog
	if len(b.buf)+m.Size > backlogBytes {
		t.stats.Dropped.Add(uint64(m.Packets))
		return
	}
	w := waiting{path: m.Path, off: len(b.buf), n: m.Size, segment: m.SegmentSize(), of: len(b.of), packets: m.Packets}
	b.of = append(b.of, t.batch.Paths(m)...)
	b.buf = t.batch.Gather(b.buf, m)
	b.items = append(b.items, w)
}

// retryBacklog sends what waits until the socket is full again.
func (t *sender) retryBacklog() {
	b := &t.backlog
	for ; b.head < len(b.items); b.head++ {
		w := &b.items[b.head]
		errno := t.sendWhole(w)
		if w.singly {
			errno = t.sendSingly(w)
		}
		if errno == unix.EAGAIN {
			t.stats.Blocked.Add(1)
			t.full.Store(int32(w.path.sock.fd))
			return
		}
	}
	clear(b.of)
	b.items, b.head, b.buf, b.of = b.items[:0], 0, b.buf[:0], b.of[:0]
	t.blocked.Store(false)
}

// sendWhole sends a datagram of the backlog, or finds that it has to go singly.
func (t *sender) sendWhole(w *waiting) unix.Errno {
	if w.singly {
		return 0
	}
	errno := t.sendOne(w.path, t.backlog.buf[w.off:w.off+w.n], w.segment)
	switch {
	case errno == 0:
		t.stats.Sent(1, w.packets, w.n)
	case errno == unix.EAGAIN:
	case w.packets > 1 && refusesSegments(errno):
		w.singly = true
	default:
		t.dropped(t.backlog.of[w.of:w.of+w.packets], errno)
	}
	return errno
}
