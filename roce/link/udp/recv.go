package udp

import (
	"net/netip"
	"os"
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
	socks    []*socket // unicast, then multicast
	fds      []unix.PollFd
	timeout  unix.Timespec
	next     int // socket to look at first
	verifier *link.Verifier

	hdrs  []sockio.Mmsghdr
	iovs  []unix.Iovec
	names []rawName
	ctl   [][rxControl]byte
	bufs  [][]byte
	bulk  int // datagrams of a call when they are long
	width int // datagrams of the next call

	// Datagrams of the last call that are not handed up yet.
	from  *socket
	msgs  int
	msg   int
	cur   datagram
	stats rxStats
}

// datagram is what is left of one.
type datagram struct {
	data    []byte
	src     link.Source
	info    rxInfo
	segment int // index of the next segment
}

type rxStats struct {
	packets, bytes, datagrams, calls, icrc, solved, short, truncated atomic.Uint64
}

func (s *rxStats) read(o *link.Stats) {
	o.RxPackets, o.RxBytes, o.RxDatagrams, o.RxCalls = s.packets.Load(), s.bytes.Load(), s.datagrams.Load(), s.calls.Load()
	o.RxICRC, o.RxSolved, o.RxShort, o.RxTruncated = s.icrc.Load(), s.solved.Load(), s.short.Load(), s.truncated.Load()
}

func (r *receiver) init(l *Link) {
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
	r.names = make([]rawName, maxRxBuffers)
	r.ctl = make([][rxControl]byte, maxRxBuffers)
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
		h.Name = r.names[i].bytes()
		h.Control = &r.ctl[i][0]
	}
	r.changedSockets()
}

// refresh takes notice of multicast groups joined and left.
func (r *receiver) refresh() {
	if r.l.changed.Load() {
		r.changedSockets()
	}
}

func (r *receiver) changedSockets() {
	l := r.l
	l.groupMu.Lock()
	defer l.groupMu.Unlock()
	l.changed.Store(false)
	for _, s := range l.left {
		unix.Close(s.fd)
	}
	l.left = nil
	r.socks = append(append(r.socks[:0], l.socks...), l.groups...)
	r.fds = append(r.fds[:0], unix.PollFd{Fd: int32(l.waker.FD())})
	for _, s := range r.socks {
		r.fds = append(r.fds, unix.PollFd{Fd: int32(s.fd)})
	}
}

// Recv fills batch; see [link.Link].
func (l *Link) Recv(batch []transport.RxPacket) (int, error) {
	r := &l.rx
	if l.closed.Load() {
		return 0, link.ErrClosed
	}
	n := 0
	for {
		n += r.split(batch[n:])
		if n > 0 {
			return n, nil
		}
		// Buffers are used again only when nothing of them is in the batch.
		if ok, err := r.receive(); !ok || err != nil {
			return 0, err
		}
	}
}

// receive takes datagrams from the next socket that has any.
func (r *receiver) receive() (bool, error) {
	r.refresh()
	for range r.socks {
		s := r.socks[r.next%len(r.socks)]
		r.next++
		if r.next >= len(r.socks) {
			r.next = 0
		}
		for i := range r.width {
			h := &r.hdrs[i].Hdr
			h.Namelen = unix.SizeofSockaddrInet6
			h.SetControllen(rxControl)
		}
		n, errno := sockio.Recv(s.fd, r.hdrs[:r.width])
		switch errno {
		case 0:
		case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.ENOBUFS,
			// A queued ICMP error of an earlier send.
			unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE:
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

// adapt chooses how many datagrams the next call takes: few while they are
// long, so that they stay in the cache, many while they are single packets.
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

// split hands up packets of the datagrams received, as many as fit.
func (r *receiver) split(batch []transport.RxPacket) int {
	n := 0
	var bytes, icrc, solved, short uint64
	for n < len(batch) {
		if len(r.cur.data) == 0 && !r.advance() {
			break
		}
		c := &r.cur
		size := len(c.data)
		if c.info.segment > 0 {
			size = min(size, c.info.segment)
		}
		b := c.data[:size:size]
		c.data = c.data[size:]
		verdict := r.verifier.Flow(&c.src).Check(b, c.segment)
		c.segment++
		switch verdict {
		case link.VerdictBad:
			icrc++
			continue
		case link.VerdictShort:
			short++
			continue
		case link.VerdictSolved:
			solved++
		}
		p := &batch[n]
		p.Src, p.Dst = c.src.Src, c.src.Dst
		p.TrafficClass, p.HopLimit = c.info.tclass, c.info.ttl
		p.SrcPort, p.Data = c.src.SrcPort, b
		bytes += uint64(size)
		n++
	}
	if n > 0 {
		r.stats.packets.Add(uint64(n))
		r.stats.bytes.Add(bytes)
	}
	if solved > 0 {
		r.stats.solved.Add(solved)
	}
	if icrc > 0 {
		r.stats.icrc.Add(icrc)
	}
	if short > 0 {
		r.stats.short.Add(short)
	}
	return n
}

// advance goes on to the next datagram that is not empty.
func (r *receiver) advance() bool {
	for r.msg < r.msgs {
		i := r.msg
		r.msg++
		h := &r.hdrs[i]
		info := parseControl(r.ctl[i][:min(int(h.Hdr.Controllen), rxControl)])
		if h.Hdr.Flags&unix.MSG_TRUNC != 0 || info.segment == 0 && h.N > ib.MaxPacketBytes {
			r.stats.truncated.Add(1)
			continue
		}
		if h.N == 0 {
			r.stats.short.Add(1)
			continue
		}
		addr, port := r.names[i].get()
		r.cur = datagram{
			data: r.bufs[i][:h.N],
			src:  link.Source{Src: unmap(addr), Dst: r.from.addr, SrcPort: port},
			info: info,
		}
		return true
	}
	return false
}

func unmap(a netip.Addr) netip.Addr {
	if a.Is4In6() {
		return a.Unmap()
	}
	return a
}
