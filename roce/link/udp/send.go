package udp

import (
	"cmp"
	"net/netip"
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/roce/link/internal/transmit"
	"github.com/goroce/goroce/transport/edge"
)

// path is the link's state of a route.
type path struct {
	transmit.Route
	pathKey
	name    rawName
	nameLen uint32
}

// pathKey identifies a path.
type pathKey struct {
	sock   *socket
	dst    netip.Addr
	scope  uint32 // interface
	tclass uint8
	ttl    uint8
}

// sender is the sending side of the link.
type sender struct {
	transmit.Sender
	l     *Link
	paths map[pathKey]*path
	// askerLane is the lane of the first asker; each address may have one asker.
	askerLane int
}

func (t *sender) init(l *Link) {
	t.l = l
	t.paths = make(map[pathKey]*path)
	gso, lane := true, 0
	for _, s := range l.socks {
		for _, out := range append([]*socket{s}, s.ports...) {
			gso = gso && out.gso
			out.lane = lane
			lane++
		}
	}
	t.askerLane = lane
	t.Init(transmit.Sends{Route: t.route, Lost: t.dropped, Lanes: lane + len(l.socks), Control: txControl})
	t.GSO.Store(gso)
}

// Blocked reports whether packets wait for the socket.
func (l *Link) Blocked() bool { return l.tx.Blocked() }

// Send sends waiting packets first, then the batch; see [link.Link].
func (l *Link) Send(batch []edge.TxPacket) {
	if l.local.Life.Err() != nil {
		l.tx.Stats.Dropped.Add(uint64(len(batch))) // the descriptors may belong to something else by now
		return
	}
	l.tx.Retry()
	l.tx.Send(batch)
}

// route makes the route of a path; nil if nothing can be sent on it.
func (t *sender) route(p *edge.Path) *transmit.Route {
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
		sock: cmp.Or(t.l.asker(p), sock.out(p)), dst: p.Dst, scope: uint32(sock.ifIdx.Load()),
		tclass: p.TrafficClass, ttl: p.HopLimit,
	}
	if key.ttl == 0 {
		key.ttl = defaultTTL
	}
	s := t.paths[key]
	if s == nil {
		s = t.newPath(key, p)
	}
	return &s.Route
}

// newPath makes the state of paths like p.
func (t *sender) newPath(key pathKey, p *edge.Path) *path {
	s := &path{
		pathKey: key,
		Route: transmit.Route{
			ICRC: transmit.ICRC{ICRC: link.FlowICRC(p, key.sock.port, t.l.local.Port()), RxeFlush: t.l.opts.RxeFlush},
			FD:   key.sock.fd, Lane: key.sock.lane, Errors: key.sock.errors, Limit: maxDatagram4,
		},
	}
	if p.Dst.Is6() {
		s.Limit = maxDatagram6
	}
	s.Own = s
	t.Add(&s.Route)
	s.nameLen = s.name.set(p.Dst, t.l.local.Port(), key.scope)
	if len(t.paths) >= maxPaths {
		clear(t.paths) // paths in use go on, but new ones do not share them
	}
	t.paths[key] = s
	return s
}

// dropped counts packets of paths that the kernel did not take. The transport will see a loss. A
// socket that no longer exists ends the link.
func (t *sender) dropped(of []*edge.Path, errno unix.Errno) {
	if sockio.Dead(errno) {
		t.l.local.Fail(os.NewSyscallError("sendmmsg", errno))
	}
	t.Stats.Refused(of, errno)
}

// Fill fills in the header of a datagram and the control messages that it needs: most single
// packets need none.
func (p *path) Fill(h *unix.Msghdr, _, control []byte, _, segment int) {
	h.Name, h.Namelen = p.name.bytes(), p.nameLen
	b := control
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
	n := len(control) - len(b)
	h.Control = nil
	if n > 0 {
		h.Control = &control[0]
	}
	h.SetControllen(n)
}
