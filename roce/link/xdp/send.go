package xdp

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/transport"
)

// sender is the sending side of the link.
type sender struct {
	l *Link

	backlog backlog
	blocked atomic.Bool // something waits for the kernel

	hold  hold
	kept  atomic.Bool // something is on hold
	retry atomic.Bool // it is worth looking whether that can go

	stats txStats
}

type txStats struct {
	packets, bytes, calls, blocked, dropped, unreachable atomic.Uint64
}

func (s *txStats) read(o *link.Stats) {
	o.TxPackets, o.TxBytes = s.packets.Load(), s.bytes.Load()
	o.TxDatagrams = o.TxPackets
	o.TxCalls, o.TxBlocked = s.calls.Load(), s.blocked.Load()
	o.TxDropped, o.TxUnreachable = s.dropped.Load(), s.unreachable.Load()
}

func (t *sender) init(l *Link) { t.l = l }

// Backlog reports whether packets wait for the kernel, or can go now that a
// neighbour is known.
func (l *Link) Backlog() bool { return l.tx.blocked.Load() || l.tx.retry.Load() }

// Send sends the packets, and first what waits; see [link.Link].
func (l *Link) Send(batch []transport.TxPacket) {
	t := &l.tx
	if l.failed.Load() != nil {
		t.stats.dropped.Add(uint64(len(batch)))
		return
	}
	if t.blocked.Load() {
		t.retryBacklog()
	}
	if t.retry.Load() {
		t.retryHold()
	}
	var packets, bytes uint64
	for i := range batch {
		if n := t.add(&batch[i]); n > 0 {
			packets++
			bytes += uint64(n)
		}
	}
	if packets > 0 {
		t.stats.packets.Add(packets)
		t.stats.bytes.Add(bytes)
	}
	t.flush()
}

// add puts a packet into a ring, and returns its length, or does what else
// there is to do with it and returns 0.
func (t *sender) add(p *transport.TxPacket) int {
	ps := t.pathOf(p.Path)
	if ps == nil {
		t.unreachable(1)
		return 0
	}
	size := p.UDPPayloadLen()
	switch ps.refresh() {
	case nexthop.Ready:
		if ps.held > 0 {
			t.retryHold()
		}
	case nexthop.Pending:
		t.keep(ps, p, size)
		return 0
	default:
		t.unreachable(1)
		return 0
	}
	if size > ps.most {
		t.stats.dropped.Add(1) // the network would have to fragment it
		return 0
	}
	slot := t.slot(ps.q)
	if slot == nil {
		t.postpone(ps, p, size)
		return 0
	}
	if !t.push(ps.q, ps.write(slot, p, size)) {
		return 0
	}
	return size
}

// slot returns room for a frame, nil if it has to wait.
func (t *sender) slot(q *queue) []byte {
	if t.backlog.waiting() {
		return nil // in order
	}
	slot, err := q.slot()
	if slot == nil && err == nil && q.dirty {
		// The kernel may be able to send them all at once.
		t.kick(q)
		slot, err = q.slot()
	}
	if err != nil {
		t.l.fail(err)
		return nil
	}
	return slot
}

func (t *sender) push(q *queue, n int) bool {
	if err := q.push(n); err != nil {
		t.l.fail(err)
		t.stats.dropped.Add(1)
		return false
	}
	return true
}

// flush makes the kernel send what is in the rings.
func (t *sender) flush() {
	for _, f := range t.l.ifaces {
		for _, q := range f.queues {
			if q.dirty {
				t.kick(q)
			}
		}
	}
}

// kick makes the kernel send what is in a ring.
func (t *sender) kick(q *queue) {
	var calls uint64
	q.flush(&calls)
	t.stats.calls.Add(calls)
	if q.stuck && !t.blocked.Load() {
		t.stats.blocked.Add(1)
		t.blocked.Store(true)
	}
}

// appendPacket appends headers, payload, padding and ICRC to b.
func (t *sender) appendPacket(b []byte, s *path, p *transport.TxPacket) []byte {
	start := len(b)
	b = link.AppendPacket(b, &s.icrc, p, 0)
	if t.l.opts.RxeFlush && ib.Opcode(p.Header[0]) == ib.RCFlush {
		body := b[start : len(b)-ib.ICRCBytes]
		ib.PutICRC(b[len(b)-ib.ICRCBytes:], s.icrc.ChecksumFlushRxe(0, body)^p.ICRCXor)
	}
	return b
}

func (t *sender) sent(bytes int) {
	t.stats.packets.Add(1)
	t.stats.bytes.Add(uint64(bytes))
}

func (t *sender) unreachable(packets int) {
	t.stats.dropped.Add(uint64(packets))
	t.stats.unreachable.Add(uint64(packets))
}
