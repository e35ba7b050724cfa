package xdp

import (
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
)

// receiver is the receiving side of the link.
type receiver struct {
	l      *Link
	queues []*queue
	next   int           // queue to look at first
	fds    []unix.PollFd // the poller's, sockets
	split  receive.Splitter

	// arena holds frames that were in several chunks. The first Recv that begins with no run
	// pending reuses it and the chunks handed up.
	arena  []byte
	used   int
	search search

	// overflow is the sockets' last count; under Link.mu.
	overflow uint64
}

func (r *receiver) init(l *Link) {
	r.l = l
	r.split.Init(l.local.Port())
	r.arena = make([]byte, arenaBytes)
	r.search.found()
	r.fds = l.local.Waker.First()
	for _, f := range l.ifaces {
		for _, q := range f.queues {
			r.queues = append(r.queues, q)
			r.fds = append(r.fds, unix.PollFd{Fd: int32(q.fd), Events: unix.POLLIN})
		}
	}
}

func (r *receiver) readStats(o *link.Stats) {
	r.l.mu.Lock()
	r.keepStats()
	o.RxOverflow = r.overflow
	r.l.mu.Unlock()
	r.split.Read(o)
}

// keepStats reads the counters of the sockets, if they are open. Link.mu is held.
func (r *receiver) keepStats() {
	if r.l == nil || r.l.gone {
		return
	}
	r.overflow = 0
	for _, q := range r.queues {
		if s, err := getOption[unix.XDPStatistics](q.fd, unix.XDP_STATISTICS); err == nil {
			r.overflow += s.Rx_dropped + s.Rx_ring_full
		}
	}
}

// Recv fills batch; see [link.Link].
func (l *Link) Recv(batch []edge.RxPacket) (int, error) {
	r := &l.rx
	if err := l.local.Life.Err(); err != nil {
		return 0, err
	}
	if !r.split.Pending() {
		// Nothing of the last call is in use any more.
		r.used = 0
		for _, q := range r.queues {
			if err := q.giveBack(); err != nil {
				l.fail(err)
				return 0, err
			}
		}
	}
	n := r.split.Split(batch)
	for range r.queues {
		if n == len(batch) {
			break
		}
		q := r.queues[r.next]
		if r.next++; r.next == len(r.queues) {
			r.next = 0
		}
		k, err := r.take(q, batch[n:])
		n += k
		if err != nil {
			l.fail(err)
			return 0, err
		}
	}
	r.split.Publish()
	return n, nil
}

// Mark remembers what is in the rings; see [link.Link].
func (l *Link) Mark() {
	for _, q := range l.rx.queues {
		q.unread = l.opts.RxFrames
	}
	l.checkSockets() // nothing else would tell a caller that only polls
}

// checkSockets ends the link if a socket no longer exists: its ring would not show that.
func (l *Link) checkSockets() {
	for _, q := range l.rx.queues {
		if errno := sockio.Check(q.fd); errno != 0 {
			l.fail(os.NewSyscallError("getsockopt", errno))
		}
	}
}

// CaughtUp reports whether that was handed up.
func (l *Link) CaughtUp() bool {
	for _, q := range l.rx.queues {
		if q.unread > 0 {
			return false
		}
	}
	return !l.rx.split.Pending()
}

// take hands up packets of a queue, as many as fit.
func (r *receiver) take(q *queue, batch []edge.RxPacket) (n int, err error) {
	frames := 0
	for n < len(batch) {
		b, ok, err := r.frame(q)
		if err != nil {
			return n, err
		}
		if !ok {
			break
		}
		frames++
		var d receive.Datagram
		switch {
		case b == nil:
			r.split.Truncated.Add(1)
		case !frame.Parse(&d, b, r.l.local.Port()):
			r.split.Malformed.Add(1)
		case q.f.mode.native:
			if r.split.Begin(&d) {
				n += r.split.Split(batch[n:])
			}
		default:
			n += r.splitGeneric(&d, batch[n:])
		}
	}
	if frames > 0 {
		q.rx.release()
		r.split.Received(frames)
	}
	return n, nil
}

// frame takes the next frame of a queue, once it is complete. b is nil if it was too long.
func (r *receiver) frame(q *queue) (b []byte, ok bool, err error) {
	switch n := q.rx.available(1); {
	case n == 0:
		q.unread = 0
		return nil, false, nil
	case n > q.rx.mask+1:
		return nil, false, &ringError{"receive", n, q.rx.mask + 1}
	}
	first := q.rx.at(0)
	if first.Options&unix.XDP_PKT_CONTD == 0 {
		b, err = r.chunk(q, first)
		q.rx.take(1)
		q.unread--
		return b, true, err
	}
	// How many chunks, and are all there?
	chunks, size := uint32(0), 0
	for more := true; more; chunks++ {
		if q.rx.available(chunks+1) <= chunks {
			q.unread = 0 // the frame has not fully arrived yet
			return nil, false, nil
		}
		d := q.rx.at(chunks)
		size += int(d.Len)
		more = d.Options&unix.XDP_PKT_CONTD != 0
	}
	long := size > maxFrameBytes || chunks > maxFrameChunks
	if !long && r.used+size > len(r.arena) {
		return nil, false, nil // next time; the arena is longer than any frame
	}
	start := r.used
	for i := range chunks {
		c, err := r.chunk(q, q.rx.at(i))
		if err != nil {
			return nil, false, err
		}
		if !long {
			r.used += copy(r.arena[r.used:], c)
		}
	}
	q.rx.take(chunks)
	q.unread -= int(chunks)
	if long {
		return nil, true, nil
	}
	return r.arena[start:r.used:r.used], true, nil
}

// chunk books a received chunk, which goes back to the kernel later, and returns its bytes.
func (r *receiver) chunk(q *queue, d unix.XDPDesc) ([]byte, error) {
	base := d.Addr &^ (chunkBytes - 1)
	if err := q.rxLedger.move(base, ours); err != nil {
		return nil, err
	}
	q.back = append(q.back, base)
	end := d.Addr + uint64(d.Len)
	if end > base+chunkBytes {
		return nil, &frameError{"received", d.Addr, "a neighbour"}
	}
	return q.umem[d.Addr:end:end], nil
}
