package packet

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport"
	"golang.org/x/sys/unix"
)

// receiver is the receiving side of the link.
type receiver struct {
	l        *Link
	socks    []*rxSocket
	fds      []unix.PollFd // event, sending socket, receiving sockets
	timeout  unix.Timespec
	next     int // socket to look at first
	verifier *link.Verifier

	hdrs  []sockio.Mmsghdr
	iovs  []unix.Iovec
	bufs  [][]byte
	bulk  int // frames of a call when they are long
	width int // frames of the next call

	// Frames of the last call that are not handed up yet.
	from  *rxSocket
	msgs  int
	msg   int
	cur   datagram
	stats rxStats

	// statsMu guards open: the kernel's counters are reset when they are read.
	statsMu sync.Mutex
	open    bool
}

type rxStats struct {
	packets, bytes, datagrams, calls, icrc, short, truncated, malformed, overflow atomic.Uint64
}

func (r *receiver) init(l *Link) error {
	r.l = l
	r.verifier = link.NewVerifier(l.port)
	r.bulk = l.opts.RxBuffers
	if r.bulk <= 0 {
		r.bulk = defaultRxBuffers
	}
	r.bulk = min(r.bulk, maxRxBuffers)
	r.width = r.bulk
	r.hdrs = make([]sockio.Mmsghdr, maxRxBuffers)
	r.iovs = make([]unix.Iovec, maxRxBuffers)
	r.bufs = make([][]byte, maxRxBuffers)
	mem := make([]byte, maxRxBuffers*rxBufferBytes)
	for i := range r.hdrs {
		b := mem[i*rxBufferBytes:][:rxBufferBytes:rxBufferBytes]
		r.bufs[i] = b
		r.iovs[i].Base = &b[0]
		r.iovs[i].SetLen(len(b))
		h := &r.hdrs[i].Hdr
		h.Iov = &r.iovs[i]
		h.SetIovlen(1)
	}
	for _, ip6 := range []bool{false, true} {
		used := false
		for _, a := range l.addrs {
			used = used || a.Is6() == ip6
		}
		if !used {
			continue
		}
		s, err := l.openReceive(ip6)
		if err != nil {
			return err
		}
		r.socks = append(r.socks, s)
	}
	r.fds = append(r.fds, unix.PollFd{Fd: int32(l.waker.FD()), Events: unix.POLLIN}, unix.PollFd{Fd: -1, Events: unix.POLLOUT})
	for _, s := range r.socks {
		r.fds = append(r.fds, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
	}
	r.open = true
	return nil
}

func (r *receiver) close(shut func(fd int)) {
	r.statsMu.Lock()
	defer r.statsMu.Unlock()
	r.open = false
	for _, s := range r.socks {
		shut(s.fd)
	}
}

func (r *receiver) readStats(o *link.Stats) {
	r.statsMu.Lock()
	if r.open {
		for _, s := range r.socks {
			if k, errno := statistics(s.fd); errno == 0 {
				r.stats.overflow.Add(uint64(k.drops))
			}
		}
	}
	r.statsMu.Unlock()
	s := &r.stats
	o.RxPackets, o.RxBytes, o.RxDatagrams, o.RxCalls = s.packets.Load(), s.bytes.Load(), s.datagrams.Load(), s.calls.Load()
	o.RxICRC, o.RxShort, o.RxTruncated = s.icrc.Load(), s.short.Load(), s.truncated.Load()
	o.RxMalformed, o.RxOverflow = s.malformed.Load(), s.overflow.Load()
}

// Recv fills batch; see [link.Link].
func (l *Link) Recv(batch []transport.RxPacket) (int, error) {
	r := &l.rx
	if l.closed.Load() {
		return 0, link.ErrClosed
	}
	for {
		if n := r.split(batch); n > 0 {
			return n, nil
		}
		// Buffers are used again only when nothing of them is in the batch.
		if ok, err := r.receive(); !ok || err != nil {
			return 0, err
		}
	}
}

// receive takes frames from the next socket that has any.
func (r *receiver) receive() (bool, error) {
	for range r.socks {
		s := r.socks[r.next]
		if r.next++; r.next == len(r.socks) {
			r.next = 0
		}
		n, errno := sockio.Recv(s.fd, r.hdrs[:r.width])
		switch errno {
		case 0:
		case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.ENOBUFS,
			unix.ENETDOWN, // the interface of a bound socket went down
			unix.EINVAL:   // a frame of a kind that the virtio header cannot express; it is gone
			continue
		default:
			return false, os.NewSyscallError("recvmmsg", errno)
		}
		if n == 0 {
			continue
		}
		r.stats.calls.Add(1)
		r.stats.datagrams.Add(uint64(n))
		r.from, r.msgs, r.msg, r.cur.data = s, n, 0, nil
		r.adapt(n)
		return true, nil
	}
	return false, nil
}

// adapt chooses how many frames the next call takes: few while they are long,
// so that they stay in the cache, many while they are single packets.
func (r *receiver) adapt(n int) {
	if n < r.width {
		return
	}
	total := 0
	for i := range n {
		total += int(r.hdrs[i].N)
	}
	if total/n > 2*ib.MaxPacketBytes {
		r.width = r.bulk
	} else {
		r.width = min(2*r.width, maxRxBuffers)
	}
}

// split hands up packets of the frames received, as many as fit.
func (r *receiver) split(batch []transport.RxPacket) int {
	n := 0
	var bytes, icrc, short uint64
	for n < len(batch) {
		if len(r.cur.data) == 0 && !r.advance() {
			break
		}
		c := &r.cur
		size := len(c.data)
		if c.segment > 0 {
			size = min(size, c.segment)
		}
		b := c.data[:size:size]
		c.data = c.data[size:]
		verdict := r.verifier.Flow(&c.src).CheckSegment(b, c.ident, c.index)
		c.index++
		switch verdict {
		case link.VerdictBad:
			icrc++
			continue
		case link.VerdictShort:
			short++
			continue
		}
		p := &batch[n]
		p.Src, p.Dst = c.src.Src, c.src.Dst
		p.TrafficClass, p.HopLimit = c.tclass, c.ttl
		p.SrcPort, p.Data = c.src.SrcPort, b
		bytes += uint64(size)
		n++
	}
	if n > 0 {
		r.stats.packets.Add(uint64(n))
		r.stats.bytes.Add(bytes)
	}
	if icrc > 0 {
		r.stats.icrc.Add(icrc)
	}
	if short > 0 {
		r.stats.short.Add(short)
	}
	return n
}

// advance goes on to the next frame that is not empty.
func (r *receiver) advance() bool {
	for r.msg < r.msgs {
		i := r.msg
		r.msg++
		h := &r.hdrs[i]
		if h.Hdr.Flags&unix.MSG_TRUNC != 0 {
			r.stats.truncated.Add(1)
			continue
		}
		switch parseFrame(&r.cur, r.bufs[i][:h.N], r.from.vnet, r.l.port) {
		case frameMalformed:
			r.cur.data = nil
			r.stats.malformed.Add(1)
			continue
		case frameLong:
			r.cur.data = nil
			r.stats.truncated.Add(1)
			continue
		}
		if len(r.cur.data) == 0 {
			r.stats.short.Add(1)
			continue
		}
		if !r.mine() {
			r.cur.data = nil
			continue
		}
		return true
	}
	return false
}

// mine reports whether a frame is for an address of the link. The filter has
// checked it unless there are very many.
func (r *receiver) mine() bool {
	dst := r.cur.src.Dst
	if len(r.l.addrs) <= maxFilterAddrs || dst.IsMulticast() {
		return true
	}
	for _, a := range r.l.addrs {
		if a == dst {
			return true
		}
	}
	return false
}
