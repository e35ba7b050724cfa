package xdp

import (
	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/transport"
)

// hold keeps copies of packets whose neighbour is being resolved. The device
// goes on sending to others meanwhile.
type hold struct {
	items []kept
	buf   []byte
	spare []byte // the buffer before, to be used again
}

type kept struct {
	path   *path
	off, n int // of the packet, BTH through ICRC, in a buffer
}

// keep puts a packet on hold, or drops it if there are too many.
func (t *sender) keep(ps *path, p *transport.TxPacket, size int) {
	h := &t.hold
	if len(h.buf)+size > heldBytes || ps.held+size > heldPerPath {
		t.unreachable(1)
		return
	}
	at := len(h.buf)
	h.buf = t.appendPacket(h.buf, ps, p)
	h.items = append(h.items, kept{ps, at, size})
	ps.held += size
	t.kept.Store(true)
	// The answer may have come before kept was set; nobody will call then.
	if ps.hop.State() != ps.state {
		t.retry.Store(true)
	}
}

// retryHold sends what is on hold for neighbours that are known by now.
func (t *sender) retryHold() {
	t.retry.Store(false) // before looking: what changes later sets it again
	h := &t.hold
	items, buf := h.items, h.buf
	h.items, h.buf = h.items[:0], h.spare[:0]
	for _, k := range items {
		data := buf[k.off : k.off+k.n]
		k.path.held -= k.n
		switch k.path.refresh() {
		case nexthop.Pending:
			k.path.held += k.n
			h.items = append(h.items, kept{k.path, len(h.buf), k.n})
			h.buf = append(h.buf, data...)
			continue
		case nexthop.Ready:
		default:
			t.unreachable(1)
			continue
		}
		if len(data) > k.path.most {
			t.stats.dropped.Add(1)
			continue
		}
		slot := t.slot(k.path.q)
		if slot == nil {
			t.postponeBytes(k.path, data)
			continue
		}
		if t.push(k.path.q, k.path.copyIn(slot, data)) {
			t.sent(len(data))
		}
	}
	clear(items[len(h.items):])
	h.spare = buf
	t.kept.Store(len(h.items) > 0)
	t.flush()
}
