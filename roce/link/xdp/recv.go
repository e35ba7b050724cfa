package xdp

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/raw"
	"github.com/goroce/goroce/transport"
	"golang.org/x/sys/unix"
)

// receiver is the receiving side of the link.
type receiver struct {
	l        *Link
	queues   []*queue
	next     int           // queue to look at first
	fds      []unix.PollFd // event, sockets
	timeout  unix.Timespec
	verifier *link.Verifier

	// arena holds frames that were in several chunks. It, and the chunks handed
	// up, are used again by the first Recv that begins with no run pending.
	arena []byte
	used  int
	run   run
	// searches is how many more frames may be searched for packets; see run.
	searches int

	stats rxStats
	// overflow is what the sockets said when they were closed; under Link.mu.
	overflow uint64
}

type rxStats struct {
	packets, bytes, datagrams, calls, icrc, short, truncated, malformed atomic.Uint64
}

func (r *receiver) init(l *Link) {
	r.l = l
	r.verifier = link.NewVerifier(l.port)
	r.arena = make([]byte, arenaBytes)
	r.searches = maxSearches
	r.fds = append(r.fds, unix.PollFd{Fd: int32(l.waker.FD()), Events: unix.POLLIN})
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
	s := &r.stats
	o.RxPackets, o.RxBytes, o.RxDatagrams, o.RxCalls = s.packets.Load(), s.bytes.Load(), s.datagrams.Load(), s.calls.Load()
	o.RxICRC, o.RxShort, o.RxTruncated, o.RxMalformed = s.icrc.Load(), s.short.Load(), s.truncated.Load(), s.malformed.Load()
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
func (l *Link) Recv(batch []transport.RxPacket) (int, error) {
	r := &l.rx
	if err := l.usable(); err != nil {
		return 0, err
	}
	if !r.run.pending() {
		// Nothing of the last call is in use any more.
		r.used = 0
		for _, q := range r.queues {
			if err := q.giveBack(); err != nil {
				l.fail(err)
				return 0, err
			}
			if l.opts.BusyPoll > 0 {
				kickReceive(q.fd)
			}
		}
	}
	n := r.cut(batch)
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
	return n, nil
}

// take hands up packets of a queue, as many as fit.
func (r *receiver) take(q *queue, batch []transport.RxPacket) (n int, err error) {
	var packets, bytes, frames, icrc uint64
	for n < len(batch) {
		if r.run.pending() {
			n += r.cut(batch[n:])
			continue
		}
		b, ok, err := r.frame(q)
		if err != nil {
			return n, err
		}
		if !ok {
			break
		}
		frames++
		var d raw.Datagram
		if b == nil {
			r.stats.truncated.Add(1)
			continue
		}
		if !raw.Parse(&d, b, r.l.port) {
			r.stats.malformed.Add(1)
			continue
		}
		verdict := link.VerdictBad
		if len(d.Data) <= ib.MaxPacketBytes {
			verdict = r.verifier.Flow(&d.Source).CheckKnown(d.Data, d.Ident)
		}
		switch {
		case verdict == link.VerdictOK:
			handUp(&batch[n], &d, d.Data)
			bytes += uint64(len(d.Data))
			r.searches = maxSearches
			packets++
			n++
		case verdict == link.VerdictShort:
			r.stats.short.Add(1)
		case !q.f.mode.native && r.begin(&d):
		case len(d.Data) > ib.MaxPacketBytes:
			r.stats.truncated.Add(1)
		default:
			icrc++
		}
	}
	if frames > 0 {
		q.rx.release()
		r.stats.datagrams.Add(frames)
	}
	if packets > 0 {
		r.stats.packets.Add(packets)
		r.stats.bytes.Add(bytes)
	}
	if icrc > 0 {
		r.stats.icrc.Add(icrc)
	}
	return n, nil
}

// handUp fills in a packet of a datagram.
func handUp(p *transport.RxPacket, d *raw.Datagram, data []byte) {
	p.Src, p.Dst = d.Source.Src, d.Source.Dst
	p.TrafficClass, p.HopLimit = d.TrafficClass, d.HopLimit
	p.SrcPort, p.Data = d.Source.SrcPort, data
}

// frame takes the next frame of a queue, which must be complete. It is nil if it
// was too long.
func (r *receiver) frame(q *queue) (b []byte, ok bool, err error) {
	if q.rx.available(1) == 0 {
		return nil, false, nil
	}
	first := q.rx.at(0)
	if first.Options&unix.XDP_PKT_CONTD == 0 {
		b, err = r.chunk(q, first)
		q.rx.take(1)
		return b, true, err
	}
	// How many chunks, and are all there?
	chunks, size := uint32(0), 0
	for more := true; more; chunks++ {
		if q.rx.available(chunks+1) <= chunks {
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
	if long {
		return nil, true, nil
	}
	return r.arena[start:r.used:r.used], true, nil
}

// chunk books a received chunk, which goes back to the kernel later, and returns
// its bytes.
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
