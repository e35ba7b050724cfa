package udp

import (
	"math/rand/v2"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/edge"
)

// Networks spread load by ports (ECMP), and receivers over queues (RSS), so packets from one
// address to another should not all come from one port. Peers accept that: only the destination
// port is fixed. A port is a socket here, so there are only a few, and paths are spread over them
// by the port that they would have on a link that can set any.

// firstPort is the first of the ports that RoCE v2 uses as entropy: 14 bits of it.
const (
	firstPort = 0xC000
	numPorts  = 1 << 14
)

// openPorts opens the sockets that only send. The link does without those it cannot get. Nothing
// spreads traffic within the machine.
func (s *socket) openPorts(o *Options) {
	if s.addr.IsLoopback() || o.DisableSourcePorts {
		return
	}
	for range sendPorts {
		p := newSocket(s.index, s.addr, nil)
		p.ifIdx.Store(s.ifIdx.Load())
		p.ifName = s.ifName
		if p.open() != nil {
			return
		}
		s.ports = append(s.ports, p) // from here on Close closes it
		if p.setOptions(o) != nil || !p.bindAny() || p.sendGroupsBy() != nil {
			s.ports = s.ports[:len(s.ports)-1]
			unix.Close(p.fd)
			return
		}
	}
}

// bindAny binds a free port. Packets sent to it are not kept.
func (s *socket) bindAny() bool {
	_ = unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1) // the kernel's minimum
	for range maxPortTries {
		if s.bind(uint16(firstPort+rand.IntN(numPorts))) == nil {
			return true
		}
	}
	return false
}

// out returns the socket by which packets on a path leave. Packets to groups leave from the port of
// the link: IP_MULTICAST_IF and the like follow the interface of its socket.
func (s *socket) out(p *edge.Path) *socket {
	if len(s.ports) == 0 || p.SrcPort == 0 || p.Dst.IsMulticast() {
		return s
	}
	if p.Light {
		return s.ports[0]
	}
	return s.ports[int(p.SrcPort)%len(s.ports)]
}

// SourcePort returns the source port of packets on a path; see [link.Link].
func (l *Link) SourcePort(p *edge.Path) uint16 {
	if r := l.tx.RouteOf(p); r != nil {
		return r.Own.(*path).sock.port
	}
	return l.local.Port()
}
