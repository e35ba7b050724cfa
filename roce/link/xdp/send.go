package xdp

import (
	"os"
	"sync/atomic"

	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/edge"
)

// sender is the sending side of the link.
type sender struct {
	l *Link

	backlog backlog
	blocked atomic.Bool // something waits for the kernel

	unresolved transmit.UnresolvedQueue[*path]
	stats      transmit.Counters
}

func (t *sender) init(l *Link) {
	t.l = l
	t.unresolved.Init(&t.stats, t.sendResolved)
}

// Blocked reports whether packets wait for the kernel, or can go now that a neighbour is known.
func (l *Link) Blocked() bool { return l.tx.blocked.Load() || l.tx.unresolved.Due() }

// Send sends waiting packets first, then the batch; see [link.Link].
func (l *Link) Send(batch []edge.TxPacket) {
	t := &l.tx
	if l.local.Life.Err() != nil {
		t.stats.Dropped.Add(uint64(len(batch)))
		return
	}
	if t.blocked.Load() {
		t.retryBacklog()
	}
	if t.unresolved.Due() {
		t.unresolved.Retry() // flushed below
	}
	packets, bytes := 0, 0
	defer func() { // also if the payload of a packet is gone, and add panics
		if packets > 0 {
			t.stats.Sent(packets, packets, bytes)
		}
		t.flush()
	}()
	for i := range batch {
		if n := t.add(&batch[i]); n > 0 {
			packets++
			bytes += n
		}
	}
}

// add puts a packet into a ring and returns its length; it returns 0 if it dropped or postponed the
// packet.
func (t *sender) add(p *edge.TxPacket) int {
	ps := t.pathOf(p.Path)
	if ps == nil {
		t.stats.Lost(p.Path, 1)
		return 0
	}
	size := p.UDPPayloadLen()
	if !t.unresolved.Admit(ps, p, size) {
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

// slot returns room for a frame; nil if it has to wait.
func (t *sender) slot(q *queue) []byte {
	if t.backlog.waiting() {
		return nil // to keep the order
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
		t.stats.Dropped.Add(1)
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
	if errno := q.flush(&calls); sockio.Dead(errno) {
		t.l.fail(os.NewSyscallError("sendto", errno))
	}
	t.stats.Calls.Add(calls)
	if q.stuck && !t.blocked.Load() {
		t.stats.Blocked.Add(1)
		t.blocked.Store(true)
	}
}

// sendResolved sends a packet that waited for its neighbour.
func (t *sender) sendResolved(p *path, of *edge.Path, data []byte) {
	slot := t.slot(p.q)
	if slot == nil {
		t.postponeBytes(p, of, data)
		return
	}
	if t.push(p.q, p.copyIn(slot, data)) {
		t.stats.Sent(1, 1, len(data))
	}
}
