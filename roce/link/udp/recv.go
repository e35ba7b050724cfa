package udp

import (
	"net/netip"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// fullFD is the index, among the descriptors of a poll, of the socket that is full.
const fullFD = 2

// receiver is the receiving side of the link.
type receiver struct {
	l     *Link
	socks []*socket // unicast, then multicast
	fds   []unix.PollFd
	next  int // socket to look at first

	// aside has the sockets for requests, whose thread wakes a poll; inboxes are behind asideFD,
	// which a poll sees as one.
	aside    []*socket
	inboxes  []int
	asideFDs []unix.PollFd // of both
	asideFD  int           // of epoll; -1: none
	awaits   bool          // something aside waits for what had come to socks before
	returned bool          // there may be ICMP messages: see returned.go
	turn     int

	reader *sockio.Reader
	names  []rawName
	ctl    [][rxControl]byte
	from   *socket // source of the last call of the reader
	split  receive.Splitter
}

func (r *receiver) init(l *Link) error {
	r.l = l
	r.split.Init(l.local.Port())
	r.reader = sockio.NewReader(rxBufferBytes, l.opts.RxBuffers)
	r.reader.Prepare = r.prepare
	l.share.Receive(&l.local, r, r.reader, &r.split, r.handOn)
	if err := r.initAside(); err != nil {
		return err
	}
	r.names = make([]rawName, sockio.MaxReadBatch)
	r.ctl = make([][rxControl]byte, sockio.MaxReadBatch)
	r.changedSockets()
	return nil
}

// refresh picks up multicast groups joined and left.
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
	r.aside = l.share.requests
	r.fds = append(append(r.fds[:0], l.local.Waker.First()...), unix.PollFd{Fd: -1, Events: unix.POLLOUT}) // at fullFD
	for _, s := range r.socks {
		r.fds = append(r.fds, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
	}
	r.fds = append(r.fds, unix.PollFd{Fd: int32(r.asideFD), Events: unix.POLLIN}) // the last
	r.asideFDs = r.asideFDs[:0]
	for _, s := range r.aside {
		r.asideFDs = append(r.asideFDs, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
	}
	for _, fd := range r.inboxes {
		r.asideFDs = append(r.asideFDs, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
}

// Done does nothing: Take reuses the buffers.
func (r *receiver) Done() {}

// Take takes datagrams from the next socket that has any.
func (r *receiver) Take() (bool, error) {
	r.refresh()
	r.turn++
	if !r.awaits && (r.l.share.Look || r.turn%asideTurns == 0) {
		r.lookAside()
	}
	if r.awaits && r.drained() {
		if ok, err := r.receiveAside(); ok || err != nil {
			return ok, err
		}
	}
	for range r.socks {
		s := r.socks[r.next%len(r.socks)]
		r.next++
		if r.next >= len(r.socks) {
			r.next = 0
		}
		if ok, err := r.receiveFrom(s, sockio.MaxReadBatch); ok || err != nil {
			return ok, err
		}
	}
	if r.awaits {
		return r.receiveAside()
	}
	return false, nil
}

// receiveFrom takes datagrams from a socket, up to limit.
func (r *receiver) receiveFrom(s *socket, limit int) (bool, error) {
	n, _, err := r.l.share.ReadSocket(s.fd, limit, &s.unread)
	if n > 0 {
		r.from = s
		s.before.Took(r.reader)
	} else {
		s.before.Empty()
	}
	return n > 0, err
}

// prepare makes room for the address of the sender and for control messages.
func (r *receiver) prepare(hdrs []sockio.Mmsghdr) {
	for i := range hdrs {
		h := &hdrs[i].Hdr
		h.Name, h.Namelen = r.names[i].bytes(), unix.SizeofSockaddrInet6
		h.Control = &r.ctl[i][0]
		h.SetControllen(rxControl)
	}
}

// Mark remembers what is in the sockets; see [link.Link].
func (l *Link) Mark() {
	l.rx.refresh()
	for _, s := range l.rx.socks {
		s.unread.Mark(s.rcvbuf)
	}
}

// CaughtUp reports whether that was handed up.
func (l *Link) CaughtUp() bool {
	r := &l.rx
	for _, s := range r.socks {
		if !s.unread.None() {
			return false
		}
	}
	return !r.split.Pending() && !r.reader.Pending() && !l.share.Pending()
}

// Advance moves to the next datagram that may hold packets.
func (r *receiver) Advance() bool {
	for {
		i, h, b, ok := r.reader.Next()
		if !ok {
			return false
		}
		if h.Flags&unix.MSG_TRUNC != 0 {
			r.split.Truncated.Add(1)
			continue
		}
		info := parseControl(r.ctl[i][:min(int(h.Controllen), rxControl)])
		addr, port := r.names[i].get()
		d := receive.Datagram{
			Data: b, Source: link.Source{Src: unmap(addr), Dst: r.from.addr, SrcPort: port},
			TrafficClass: info.tclass, HopLimit: info.ttl, Segment: info.segment,
		}
		if r.split.Begin(&d) {
			return true
		}
	}
}

func unmap(a netip.Addr) netip.Addr {
	if a.Is4In6() {
		return a.Unmap()
	}
	return a
}
