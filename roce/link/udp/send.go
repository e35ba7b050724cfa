package udp

import (
	"sync/atomic"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
	"golang.org/x/sys/unix"
)

// path is the state that the link hangs on a transport.Path.
type path struct {
	l       *Link
	sock    *socket
	icrc    ib.ICRC
	name    rawName
	nameLen uint32
	tclass  uint8
	ttl     uint8
	limit   int // most bytes of a datagram
}

// message is one datagram in the making: a run of packets of one path.
type message struct {
	path    *path
	iov0    int // first iovec
	iovs    int
	size    int // bytes so far
	segment int // size of the segments
	packets int
	short   bool // the last packet was shorter: nothing can follow
}

// sender is the sending side of the link.
type sender struct {
	l       *Link
	gso     atomic.Bool
	maxSegs int

	arena []byte // headers, copied payloads, paddings, ICRCs
	used  int
	iovs  []unix.Iovec
	nIov  int
	msgs  []message
	hdrs  []mmsghdr
	ctl   [][txControl]byte

	single  []byte // a datagram gathered, to be sent packet by packet
	backlog backlog
	blocked atomic.Bool

	stats txStats
}

type txStats struct {
	packets, bytes, datagrams, calls, blocked, dropped, fallbacks atomic.Uint64
}

func (s *txStats) read(o *link.Stats) {
	o.TxPackets, o.TxBytes, o.TxDatagrams = s.packets.Load(), s.bytes.Load(), s.datagrams.Load()
	o.TxCalls, o.TxBlocked, o.TxDropped = s.calls.Load(), s.blocked.Load(), s.dropped.Load()
	o.GSOFallbacks = s.fallbacks.Load()
}

func (t *sender) init(l *Link) {
	t.l = l
	t.maxSegs = maxSegments
	t.arena = make([]byte, sendBatch*arenaPerPacket)
	t.iovs = make([]unix.Iovec, sendBatch*iovsPerPacket)
	t.msgs = make([]message, 0, sendBatch)
	t.hdrs = make([]mmsghdr, sendBatch)
	t.ctl = make([][txControl]byte, sendBatch)
	gso := true
	for _, s := range l.socks {
		gso = gso && s.gso
	}
	t.gso.Store(gso)
}

// Backlog reports whether packets wait for the socket.
func (l *Link) Backlog() bool { return l.tx.blocked.Load() }

// Send sends the packets, and first what waits; see [link.Link].
func (l *Link) Send(batch []transport.TxPacket) {
	t := &l.tx
	if t.blocked.Load() {
		t.retryBacklog()
	}
	for len(batch) > 0 {
		n := min(len(batch), sendBatch)
		for i := range batch[:n] {
			t.add(&batch[i])
		}
		t.submit()
		batch = batch[n:]
	}
}

// pathOf returns the link's state of a path, nil if nothing can be sent on it.
func (t *sender) pathOf(p *transport.Path) *path {
	if s, ok := p.Link.(*path); ok && s.l == t.l {
		return s
	}
	var sock *socket
	if i := p.SGIDIndex; i >= 0 && i < len(t.l.socks) && t.l.socks[i].addr == p.Src {
		sock = t.l.socks[i]
	} else {
		for _, s := range t.l.socks {
			if s.addr == p.Src {
				sock = s
				break
			}
		}
	}
	if sock == nil || p.Dst.Is4() != p.Src.Is4() {
		return nil
	}
	s := &path{
		l: t.l, sock: sock, icrc: link.FlowICRC(p, t.l.port, t.l.port),
		tclass: p.TrafficClass, ttl: p.HopLimit, limit: maxDatagram4,
	}
	if s.ttl == 0 {
		s.ttl = defaultTTL
	}
	if p.Dst.Is6() {
		s.limit = maxDatagram6
	}
	s.nameLen = s.name.set(p.Dst, t.l.port, uint32(sock.ifIdx))
	p.Link = s
	return s
}

// add appends a packet to the current message or begins another.
func (t *sender) add(p *transport.TxPacket) {
	ps := t.pathOf(p.Path)
	if ps == nil {
		t.stats.dropped.Add(1)
		return
	}
	size := p.UDPPayloadLen()
	m := t.current()
	if !t.fits(m, ps, p, size) {
		t.msgs = append(t.msgs, message{path: ps, iov0: t.nIov, segment: size})
		m = &t.msgs[len(t.msgs)-1]
	}
	id := uint16(m.packets) // the kernel numbers segments from 0
	crc := t.checksum(ps, p, size, id)

	t.put(m, p.Headers())
	if int(p.PayloadLen) <= copyBytes {
		for _, f := range p.Frags[:p.NumFrags] {
			t.put(m, f)
		}
	} else {
		for _, f := range p.Frags[:p.NumFrags] {
			t.refer(m, f)
		}
	}
	var trailer [3 + ib.ICRCBytes]byte
	ib.PutICRC(trailer[p.Pad:], crc)
	t.put(m, trailer[:int(p.Pad)+ib.ICRCBytes])

	m.packets++
	m.size += size
	m.short = size < m.segment
}

func (t *sender) checksum(ps *path, p *transport.TxPacket, size int, id uint16) uint32 {
	if t.l.opts.RxeFlush && ib.Opcode(p.Header[0]) == ib.RCFlush {
		var b [ib.MaxHeaderBytes]byte
		return ps.icrc.ChecksumFlushRxe(id, b[:copy(b[:], p.Headers())])
	}
	return link.PacketICRC(&ps.icrc, p, id)
}

func (t *sender) current() *message {
	if len(t.msgs) == 0 {
		return nil
	}
	return &t.msgs[len(t.msgs)-1]
}

// fits reports whether a packet can be a segment of the message.
func (t *sender) fits(m *message, ps *path, p *transport.TxPacket, size int) bool {
	return m != nil && t.gso.Load() && m.path == ps && !m.short &&
		size <= m.segment && m.packets < t.maxSegs && m.size+size <= ps.limit &&
		m.iovs+1+2+int(p.NumFrags) <= maxIovs
}

// put copies b into the arena, where it continues the iovec before if it can.
func (t *sender) put(m *message, b []byte) {
	if len(b) == 0 {
		return
	}
	at := t.used
	t.used += copy(t.arena[at:], b)
	if m.iovs > 0 && at > 0 {
		last := &t.iovs[t.nIov-1]
		if addrOf(last.Base)+uintptr(last.Len) == addrOf(&t.arena[at]) {
			last.SetLen(int(last.Len) + len(b))
			return
		}
	}
	t.refer(m, t.arena[at:t.used])
}

// refer adds an iovec.
func (t *sender) refer(m *message, b []byte) {
	if len(b) == 0 {
		return
	}
	v := &t.iovs[t.nIov]
	v.Base = &b[0]
	v.SetLen(len(b))
	t.nIov++
	m.iovs++
}

// submit sends the messages that were made.
func (t *sender) submit() {
	for i := 0; i < len(t.msgs); {
		sock := t.msgs[i].path.sock
		j := i + 1
		for j < len(t.msgs) && t.msgs[j].path.sock == sock {
			j++
		}
		t.submitTo(sock, i, j)
		i = j
	}
	t.msgs = t.msgs[:0]
	// Payloads are not to be kept alive by iovecs of packets that are gone; the
	// arena may be.
	clear(t.iovs[:t.nIov])
	t.nIov, t.used = 0, 0
}

// submitTo sends messages i to j-1, which leave by one socket.
func (t *sender) submitTo(sock *socket, i, j int) {
	for k := i; k < j; k++ {
		t.fill(k)
	}
	for i < j {
		if t.blocked.Load() {
			for ; i < j; i++ {
				t.postpone(&t.msgs[i])
			}
			return
		}
		n, errno := sendmmsg(sock.fd, t.hdrs[i:j])
		t.stats.calls.Add(1)
		if n > 0 {
			for k := i; k < i+n; k++ {
				t.sent(t.msgs[k].packets, t.msgs[k].size)
			}
			i += n
			continue
		}
		m := &t.msgs[i]
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			t.stats.blocked.Add(1)
			t.blocked.Store(true)
		case m.packets > 1 && refusesSegments(errno):
			t.single = t.gather(t.single[:0], m)
			t.sendSingly(m.path, t.single, m.segment)
			i++
		default:
			// No route, too long for it, no memory: the transport will see a loss.
			t.stats.dropped.Add(uint64(m.packets))
			i++
		}
	}
}

func (t *sender) sent(packets, bytes int) {
	t.stats.datagrams.Add(1)
	t.stats.packets.Add(uint64(packets))
	t.stats.bytes.Add(uint64(bytes))
}

// fill prepares the header of message k.
func (t *sender) fill(k int) {
	m := &t.msgs[k]
	h := &t.hdrs[k].hdr
	h.Name, h.Namelen = m.path.name.bytes(), m.path.nameLen
	h.Iov = &t.iovs[m.iov0]
	h.SetIovlen(m.iovs)
	segment := 0
	if m.packets > 1 {
		segment = m.segment
	}
	setControl(h, &t.ctl[k], m.path, segment)
}

// setControl adds the control messages that a datagram needs: most single
// packets need none.
func setControl(h *unix.Msghdr, ctl *[txControl]byte, p *path, segment int) {
	b := ctl[:]
	if segment != 0 {
		b = putCmsg(b, unix.SOL_UDP, unix.UDP_SEGMENT, uint32(segment), 2)
	}
	v4 := p.sock.addr.Is4()
	if p.tclass != 0 {
		if v4 {
			b = putCmsg(b, unix.IPPROTO_IP, unix.IP_TOS, uint32(p.tclass), 4)
		} else {
			b = putCmsg(b, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, uint32(p.tclass), 4)
		}
	}
	if p.ttl != defaultTTL {
		if v4 {
			b = putCmsg(b, unix.IPPROTO_IP, unix.IP_TTL, uint32(p.ttl), 4)
		} else {
			b = putCmsg(b, unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, uint32(p.ttl), 4)
		}
	}
	n := len(ctl) - len(b)
	h.Control = nil
	if n > 0 {
		h.Control = &ctl[0]
	}
	h.SetControllen(n)
}
