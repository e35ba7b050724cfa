package xdp

import (
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/transport/edge"
)

// backlog holds copies of packets for which no frame was free. While it holds any, the device makes
// no more packets, so it stays small: at most the packets of one Send.
type backlog struct {
	items []waiting
	head  int
	buf   []byte
}

type waiting struct {
	path   *path
	of     *edge.Path
	off, n int // of the packet, BTH through ICRC, in buf
}

func (b *backlog) waiting() bool { return b.head < len(b.items) }

// postpone copies a packet to the backlog, or drops it if that is full.
func (t *sender) postpone(ps *path, p *edge.TxPacket, size int) {
	if t.room(size) {
		t.backlog.buf = ps.ICRC.Append(t.backlog.buf, p)
		t.wait(ps, p.Path, size)
	}
}

// postponeBytes does the same with a packet that is complete.
func (t *sender) postponeBytes(ps *path, of *edge.Path, data []byte) {
	if t.room(len(data)) {
		t.backlog.buf = append(t.backlog.buf, data...)
		t.wait(ps, of, len(data))
	}
}

// room reports whether a packet can wait, and counts it as dropped if not.
func (t *sender) room(size int) bool {
	if len(t.backlog.buf)+size > backlogBytes || t.l.local.Life.Err() != nil {
		t.stats.Dropped.Add(1)
		return false
	}
	return true
}

// wait enters the packet of size bytes at the end of the buffer.
func (t *sender) wait(ps *path, of *edge.Path, size int) {
	b := &t.backlog
	b.items = append(b.items, waiting{ps, of, len(b.buf) - size, size})
	if !t.blocked.Load() {
		t.stats.Blocked.Add(1)
		t.blocked.Store(true)
	}
}

// retryBacklog sends waiting packets until the frames are used up again.
func (t *sender) retryBacklog() {
	stuck := false
	for _, f := range t.l.ifaces {
		for _, q := range f.queues {
			if q.stuck || q.tx.unconsumed() > 0 {
				t.kick(q)
			}
			if err := q.reclaim(); err != nil {
				t.l.fail(err)
				return
			}
		}
	}
	b := &t.backlog
	for ; b.waiting(); b.head++ {
		k := b.items[b.head]
		if k.path.Refresh() == nexthop.Failed || k.path.q == nil || k.n > k.path.Most {
			t.stats.Lost(k.of, 1)
			continue
		}
		q := k.path.q
		slot, err := q.slot()
		if err != nil {
			t.l.fail(err)
			return
		}
		if slot == nil {
			if q.dirty {
				t.kick(q)
				if slot, err = q.slot(); err != nil {
					t.l.fail(err)
					return
				}
			}
			if slot == nil {
				return
			}
		}
		if t.push(q, k.path.copyIn(slot, b.buf[k.off:k.off+k.n])) {
			t.stats.Sent(1, 1, k.n)
		}
	}
	clear(b.items)
	b.items, b.head, b.buf = b.items[:0], 0, b.buf[:0]
	t.flush()
	for _, f := range t.l.ifaces {
		for _, q := range f.queues {
			stuck = stuck || q.stuck
		}
	}
	t.blocked.Store(stuck)
}
