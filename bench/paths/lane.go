package paths

import (
	"container/heap"
	"math"
	"math/rand/v2"
)

// lane is one direction of a link. Times are nanoseconds of a clock that the caller has, and do not
// run backwards. The same packets at the same times with the same seed have the same fate.
type lane struct {
	p       Path
	rng     *rand.Rand
	free    int64 // when the last bit of what is in the queue is sent
	last    int64 // when the last packet leaves that keeps its order
	burst   bool  // what comes is lost
	under   held
	entered uint64
	spare   [][]byte
	book    book
}

// packet is one on its way.
type packet struct {
	due int64
	seq uint64 // packets of one time leave as they came
	b   []byte
}

// held are packets on their way, the next to leave first.
type held []packet

func (h held) Len() int { return len(h) }
func (h held) Less(i, k int) bool {
	return h[i].due < h[k].due || h[i].due == h[k].due && h[i].seq < h[k].seq
}
func (h held) Swap(i, k int) { h[i], h[k] = h[k], h[i] }

// Push is of heap.Interface.
func (h *held) Push(x any) { *h = append(*h, *x.(*packet)) }

// Pop is of heap.Interface. The lane takes the packet from behind the last one.
func (h *held) Pop() any {
	*h = (*h)[:len(*h)-1]
	return nil
}

func newLane(p Path, seed, direction uint64) *lane {
	return &lane{p: p, rng: rand.New(rand.NewPCG(seed, direction))}
}

// enter takes an IP packet, of which it keeps a copy.
func (l *lane) enter(now int64, b []byte) {
	l.entered++
	f := l.book.enter(b)
	l.free = max(l.free, now)
	wire := float64((len(b) + frameOverhead) * 8)
	var send int64 // ns
	if l.p.Mbps > 0 {
		send = int64(math.Round(wire * 1e3 / l.p.Mbps))
		queued := float64(l.free-now) * l.p.Mbps / 8e3
		if l.p.Queue > 0 && queued >= float64(l.p.Queue*fullFrame) {
			l.book.count(f).Overflow++
			return
		}
		if l.p.Mark > 0 && queued >= float64(l.p.Mark*fullFrame) && markable(b) {
			mark(b)
			l.book.count(f).Marked++
		}
	}
	if l.loses() {
		l.book.count(f).Lost++
		return
	}
	l.free += send
	due := l.free + int64(l.p.Delay)
	if l.p.Jitter > 0 {
		due += l.rng.Int64N(int64(l.p.Jitter))
	}
	if l.p.Late > 0 && l.rng.Float64() < l.p.Late {
		due += send * 7 / 2 // three come in that time
		l.book.count(f).Late++
	} else {
		due = max(due, l.last)
		l.last = due
	}
	l.book.delivers(f)
	l.hold(due, b)
	if l.p.Double > 0 && l.rng.Float64() < l.p.Double {
		l.hold(due, b)
		l.book.count(f).Doubled++
	}
}

// loses draws whether the link loses the packet that is there.
func (l *lane) loses() bool {
	if l.p.Loss <= 0 {
		return false
	}
	if l.p.Burst <= 1 {
		return l.rng.Float64() < l.p.Loss
	}
	// Two states, of which one loses everything. It lasts Burst packets on average, and the other
	// as long as makes Loss the share of all.
	leave := 1 / l.p.Burst
	if l.burst {
		l.burst = l.rng.Float64() >= leave
	} else {
		l.burst = l.rng.Float64() < leave*l.p.Loss/(1-l.p.Loss)
	}
	return l.burst
}

func (l *lane) hold(due int64, b []byte) {
	var c []byte
	if n := len(l.spare); n > 0 {
		c, l.spare = l.spare[n-1], l.spare[:n-1]
	}
	p := packet{due, l.entered, append(c[:0], b...)}
	heap.Push(&l.under, &p)
}

// next is when the next packet leaves; false if there is none.
func (l *lane) next() (due int64, ok bool) {
	if len(l.under) == 0 {
		return 0, false
	}
	return l.under[0].due, true
}

// leave is the next packet that has left by now, nil if there is none, and how late it is. The
// bytes are valid until release is called with them.
func (l *lane) leave(now int64) (b []byte, late int64) {
	due, ok := l.next()
	if !ok || due > now {
		return nil, 0
	}
	b = l.under[0].b
	heap.Pop(&l.under)
	return b, now - due
}

// release takes back what leave returned.
func (l *lane) release(b []byte) { l.spare = append(l.spare, b) }
