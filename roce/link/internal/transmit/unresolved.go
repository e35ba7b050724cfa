package transmit

import (
	"slices"
	"sync/atomic"

	"github.com/goroce/goroce/roce/link/internal/nexthop"
	"github.com/goroce/goroce/transport/edge"
)

// Follower is a path of a link.
type Follower interface {
	Base() *Path
	// Refresh updates the path from its next hop, and returns its status.
	Refresh() nexthop.Status
}

const (
	// unresolvedBytes bounds what waits for neighbours to be resolved, unresolvedPerPath the part
	// of one path.
	unresolvedBytes   = 1 << 20
	unresolvedPerPath = 64 << 10
)

// UnresolvedQueue keeps copies of packets whose neighbour is being resolved; the device goes on
// sending to others meanwhile. Every packet goes through Admit first. It belongs to the sending
// side, except as its methods say.
type UnresolvedQueue[P Follower] struct {
	stats *Counters
	send  func(path P, of *edge.Path, data []byte)

	some  atomic.Bool // the queue has packets
	retry atomic.Bool // some of them may be able to go
	items []unresolved[P]
	buf   []byte
	spare []byte // the previous buffer, to be reused
}

type unresolved[P Follower] struct {
	path   P
	of     *edge.Path
	off, n int // of the packet, BTH through ICRC, in buf
}

// Init sets the counters of packets that have nowhere to go, and the function that sends kept
// packets.
func (q *UnresolvedQueue[P]) Init(stats *Counters, send func(path P, of *edge.Path, data []byte)) {
	q.stats, q.send = stats, send
}

// Admit reports whether a packet of size bytes, BTH through ICRC, can go out by its path now;
// packets kept for it go first. A packet that cannot go is kept or counted.
func (q *UnresolvedQueue[P]) Admit(path P, p *edge.TxPacket, size int) bool {
	s := path.Base()
	switch path.Refresh() {
	case nexthop.Ready:
		if s.unresolved > 0 {
			q.Retry()
		}
		return q.fits(s, p.Path, size)
	case nexthop.Pending:
		if q.keep(path, s, p, size) {
			return false
		}
	}
	q.stats.Lost(p.Path, 1)
	return false
}

// fits reports whether a packet of size bytes can go by a path without being fragmented, and counts
// it if not.
func (q *UnresolvedQueue[P]) fits(s *Path, of *edge.Path, size int) bool {
	if size > s.Most {
		q.stats.TooLong(of, 1)
		return false
	}
	return true
}

// keep keeps a packet. It returns false if there are too many.
func (q *UnresolvedQueue[P]) keep(path P, s *Path, p *edge.TxPacket, size int) bool {
	if len(q.buf)+size > unresolvedBytes || s.unresolved+size > unresolvedPerPath {
		return false
	}
	at := len(q.buf)
	q.buf = s.ICRC.Append(slices.Grow(q.buf, size), p)
	q.items = append(q.items, unresolved[P]{path, p.Path, at, size})
	s.unresolved += size
	q.some.Store(true)
	// The answer may have come before some was set, in which case no call follows.
	if s.hop.State() != s.state {
		q.retry.Store(true)
	}
	return true
}

// Changed handles that destinations have become reachable or unreachable, and reports whether that
// matters. It may be called from anywhere.
func (q *UnresolvedQueue[P]) Changed() bool {
	if !q.some.Load() {
		return false
	}
	q.retry.Store(true)
	return true
}

// Due reports whether Retry is worth calling. It may be called from anywhere.
func (q *UnresolvedQueue[P]) Due() bool { return q.retry.Load() }

// Retry sends those packets, in order, whose neighbour is known by now, and gives up those that
// have nowhere to go.
func (q *UnresolvedQueue[P]) Retry() {
	q.retry.Store(false) // before looking: later changes set it again
	items, buf := q.items, q.buf
	q.items, q.buf = q.items[:0], q.spare[:0]
	for _, k := range items {
		s, data := k.path.Base(), buf[k.off:k.off+k.n]
		s.unresolved -= k.n
		switch k.path.Refresh() {
		case nexthop.Pending:
			s.unresolved += k.n
			q.items = append(q.items, unresolved[P]{k.path, k.of, len(q.buf), k.n})
			q.buf = append(q.buf, data...)
		case nexthop.Ready:
			if q.fits(s, k.of, k.n) {
				q.send(k.path, k.of, data)
			}
		default:
			q.stats.Lost(k.of, 1)
		}
	}
	clear(items[len(q.items):])
	q.spare = buf
	q.some.Store(len(q.items) > 0)
}
