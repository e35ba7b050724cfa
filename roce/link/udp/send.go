package udp

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/wire"
)

// path is the state that the link hangs on a wire.Path. Those that do not differ in
// anything here share it, so that their packets can share datagrams.
type path struct {
	pathKey
	l       *Link
	hash    uint32
	icrc    transmit.ICRC
	name    rawName
	nameLen uint32
	limit   int // most bytes of a datagram
}

// pathKey is what a path is made of.
type pathKey struct {
	sock   *socket
	dst    netip.Addr
	scope  uint32 // interface
	tclass uint8
	ttl    uint8
}

type message = sockio.Message[*path]

// sender is the sending side of the link.
type sender struct {
	l       *Link
	gso     atomic.Bool
	maxSegs int
	// sendmmsg is sockio.Send, and something that fails in tests.
	sendmmsg func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno)

	batch *sockio.Batch[*path]
	hdrs  []sockio.Mmsghdr
	ctl   [][txControl]byte

	lanes []int // as many as there may be sockets: see bySocket
	// askerLane is the first lane of the askers, of which an address may have one.
	askerLane int
	sorted    []message

	backlog backlog
	blocked atomic.Bool
	full    atomic.Int32 // the socket that would not take more
	refused bool         // a datagram in the backlog was refused with segmentation
	adding  bool         // packets are being added to the batch
	begin   func(*path, int) *message

	paths map[pathKey]*path

	stats transmit.Counters
}

func (t *sender) init(l *Link) {
	t.l = l
	t.maxSegs = sockio.MaxSegments
	t.sendmmsg = sockio.Send
	t.batch = sockio.NewBatch[*path]()
	t.begin = func(ps *path, size int) *message {
		m, _ := t.batch.Begin(ps, size, 0)
		return m
	}
	t.paths = make(map[pathKey]*path)
	t.hdrs = make([]sockio.Mmsghdr, sockio.BatchPackets)
	t.ctl = make([][txControl]byte, sockio.BatchPackets)
	t.sorted = make([]message, sockio.BatchPackets)
	gso, lane := true, 0
	for _, s := range l.socks {
		for _, out := range append([]*socket{s}, s.ports...) {
			gso = gso && out.gso
			out.lane = lane
			lane++
		}
	}
	t.askerLane = lane
	t.lanes = make([]int, lane+len(l.socks))
	t.gso.Store(gso)
}

// Blocked reports whether packets wait for the socket.
func (l *Link) Blocked() bool { return l.tx.blocked.Load() }

// Send sends the packets, and first what waits; see [link.Link].
func (l *Link) Send(batch []wire.TxPacket) {
	t := &l.tx
	if l.local.Life.Err() != nil {
		t.stats.Dropped.Add(uint64(len(batch))) // the descriptors may be somebody else's by now
		return
	}
	if t.blocked.Load() {
		t.retryBacklog()
	}
	done := false
	defer func() {
		if !done {
			t.abandon()
		}
	}()
	for len(batch) > 0 {
		n := min(len(batch), sockio.BatchPackets)
		t.adding = true
		if t.gso.Load() && sockio.Several(batch[:n]) {
			for i := range batch[:n] {
				t.sort(&batch[i])
			}
			t.batch.Build(t.begin, (*path).renumber)
		} else {
			for i := range batch[:n] {
				t.add(&batch[i])
			}
		}
		t.adding = false
		t.submit()
		if t.refused {
			t.refused = false
			t.retryBacklog()
		}
		batch = batch[n:]
	}
	done = true
}

// abandon is for a Send that was left by a panic, for memory that is not there. What
// was before that is sent.
func (t *sender) abandon() {
	defer t.batch.Reset()
	if t.adding {
		t.adding = false
		if len(t.batch.Msgs) == 0 {
			t.batch.Build(t.begin, (*path).renumber)
		}
		t.stats.Dropped.Add(uint64(t.batch.DropBroken(0)))
		t.submit()
	}
}

// pathOf returns the link's state of a path, nil if nothing can be sent on it.
func (t *sender) pathOf(p *wire.Path) *path {
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
	key := pathKey{
		sock: cmp.Or(t.l.asker(p), sock.out(p)), dst: p.Dst, scope: uint32(sock.ifIdx.Load()), tclass: p.TrafficClass, ttl: p.HopLimit,
	}
	if key.ttl == 0 {
		key.ttl = defaultTTL
	}
	s := t.paths[key]
	if s == nil {
		s = t.newPath(key, p)
	}
	p.Link = s
	return s
}

// newPath makes the state of paths like p.
func (t *sender) newPath(key pathKey, p *wire.Path) *path {
	s := &path{
		pathKey: key, l: t.l, hash: rand.Uint32(), limit: maxDatagram4,
		icrc: transmit.ICRC{ICRC: link.FlowICRC(p, key.sock.port, t.l.local.Port()), RxeFlush: t.l.opts.RxeFlush},
	}
	if p.Dst.Is6() {
		s.limit = maxDatagram6
	}
	s.nameLen = s.name.set(p.Dst, t.l.local.Port(), key.scope)
	if len(t.paths) >= maxPaths {
		clear(t.paths) // those that are in use go on, without company
	}
	t.paths[key] = s
	return s
}

// add appends a packet to the current message or begins another.
func (t *sender) add(p *wire.TxPacket) {
	ps := t.pathOf(p.Path)
	if ps == nil {
		t.stats.Dropped.Add(1)
		return
	}
	size := p.UDPPayloadLen()
	m := t.batch.Last()
	fits := t.gso.Load() && t.batch.Fits(m, ps, p, size, t.maxSegs, ps.limit)
	id := uint16(0) // the kernel numbers segments from 0
	if fits {
		id = uint16(m.Packets)
	}
	icrc := ps.icrc.Of(p, id) // before the batch is touched: the payload may not be there
	if !fits {
		m, _ = t.batch.Begin(ps, size, 0)
	}
	t.batch.Add(m, p, size, icrc)
}

// sort chooses a datagram for a packet, of a batch of packets of several paths.
func (t *sender) sort(p *wire.TxPacket) {
	ps := t.pathOf(p.Path)
	if ps == nil {
		t.stats.Dropped.Add(1)
		return
	}
	size := p.UDPPayloadLen()
	k, index := t.batch.Place(ps, ps.hash, p, size, t.maxSegs, ps.limit)
	icrc := ps.icrc.Of(p, uint16(index)) // before it is there: the payload may not be
	t.batch.Take(k, p, size, icrc)
}

// renumber is the ICRC of a packet with another index in its datagram.
func (ps *path) renumber(p *wire.TxPacket, index int) uint32 {
	return ps.icrc.Of(p, uint16(index)) // no payload that may not be there
}

// submit sends the messages that were made.
func (t *sender) submit() {
	t.bySocket()
	msgs := t.batch.Msgs
	for i := 0; i < len(msgs); {
		sock := msgs[i].Path.sock
		j := i + 1
		for j < len(msgs) && msgs[j].Path.sock == sock {
			j++
		}
		t.submitTo(sock, i, j)
		i = j
	}
	t.batch.Reset()
}

// submitTo sends messages i to j-1, which leave by one socket.
func (t *sender) submitTo(sock *socket, i, j int) {
	for k := i; k < j; k++ {
		t.fill(k)
	}
	for tries := 0; i < j; {
		if t.blocked.Load() {
			for ; i < j; i++ {
				t.postpone(&t.batch.Msgs[i])
			}
			return
		}
		n, errno := t.sendmmsg(sock.fd, t.hdrs[i:j])
		t.stats.Calls.Add(1)
		if n > 0 {
			packets, bytes := t.batch.Total(i, n)
			t.stats.Sent(n, packets, bytes)
			i += n
			continue
		}
		m := &t.batch.Msgs[i]
		switch {
		case errno == unix.EINTR:
		case sock.errors && tries < maxErrorTries && asynchronous(errno):
			tries++ // about an earlier datagram
		case errno == unix.EAGAIN:
			t.stats.Blocked.Add(1)
			t.full.Store(int32(sock.fd))
			t.blocked.Store(true)
		case m.Packets > 1 && refusesSegments(errno):
			// It goes out packet by packet, from the backlog because the socket may
			// fill up meanwhile, and what comes after it waits its turn there.
			t.full.Store(int32(sock.fd))
			t.blocked.Store(true)
			t.refused = true
			t.postpone(m)
			i++
		case errno == unix.EFAULT:
			t.stats.Dropped.Add(uint64(m.Packets))
			t.batch.Touch(m) // a payload is not there
			i++
		default:
			t.dropped(t.batch.Paths(m), errno)
			i++
		}
	}
}

// dropped counts packets of paths that the kernel did not take: no route, too long, no memory. The
// transport will see a loss. A socket that is not there any more ends the link.
func (t *sender) dropped(of []*wire.Path, errno unix.Errno) {
	if sockio.Dead(errno) {
		t.l.local.Fail(os.NewSyscallError("sendmmsg", errno))
	}
	if errno == unix.EMSGSIZE {
		// The interface has a smaller MTU by now, or a router on the way has said so
		// (ICMP), which the kernel remembers for the route.
		for _, p := range of {
			t.stats.TooLong(p, 1)
		}
		return
	}
	t.stats.Dropped.Add(uint64(len(of)))
}

// asynchronous reports whether an error may be that of an ICMP message.
func asynchronous(errno unix.Errno) bool {
	return errno == unix.ECONNREFUSED || errno == unix.EHOSTUNREACH || errno == unix.ENETUNREACH || errno == unix.EPROTO
}

// fill prepares the header of message k.
func (t *sender) fill(k int) {
	m := &t.batch.Msgs[k]
	h := &t.hdrs[k].Hdr
	h.Name, h.Namelen = m.Path.name.bytes(), m.Path.nameLen
	t.batch.SetIov(h, m)
	setControl(h, &t.ctl[k], m.Path, m.SegmentSize())
}

// setControl adds the control messages that a datagram needs: most single
// packets need none.
func setControl(h *unix.Msghdr, ctl *[txControl]byte, p *path, segment int) {
	b := ctl[:]
	if segment != 0 {
		b = putCmsg(b, unix.SOL_UDP, unix.UDP_SEGMENT, uint32(segment), 2)
	}
	v4 := p.dst.Is4()
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
