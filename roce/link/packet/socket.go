package packet

import (
	"errors"
	"os"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/internal/sockio"
)

// hostToNet converts a protocol number to network byte order for AF_PACKET.
func hostToNet(v uint16) uint16 {
	var b [2]byte
	b[0], b[1] = byte(v>>8), byte(v)
	return native.Uint16(b[:])
}

// openRaw opens an AF_PACKET socket that receives nothing yet.
func openRaw() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		hint := ""
		switch {
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
			hint = "the packet link needs CAP_NET_RAW: run as root, or setcap cap_net_raw+ep on the program, or use the udp link, which needs nothing"
		case errors.Is(err, unix.EAFNOSUPPORT):
			hint = "this kernel has no packet sockets: use the udp link"
		}
		return -1, &link.OpenError{Hint: hint, Err: os.NewSyscallError("socket AF_PACKET", err)}
	}
	return fd, nil
}

// setVnet switches the virtio header on.
func setVnet(fd int) error {
	return os.NewSyscallError("setsockopt PACKET_VNET_HDR",
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
}

// rxSocket receives the frames of one address family.
type rxSocket struct {
	fd     int
	ip6    bool
	rcvbuf int
	vnet   bool
	ring   *ring // nil: all frames are read from the queue

	marked unread // of what was there at the last Mark
	before unread // of what came before something aside
}

// unread bounds how much of what a socket had at some moment is still there.
type unread struct {
	slots int           // in the ring
	queue sockio.Unread // in the queue, without a ring
}

func (u *unread) mark(s *rxSocket) {
	if s.ring != nil {
		u.slots = s.ring.slots
	} else {
		u.queue.Mark(s.rcvbuf)
	}
}

func (u *unread) none() bool { return u.slots <= 0 && u.queue.None() }

// openReceive opens the receiving socket of a family. The filter is in place before the first
// packet.
func (l *Link) openReceive(ip6 bool) (*rxSocket, error) {
	fd, err := openRaw()
	if err != nil {
		return nil, err
	}
	s := &rxSocket{fd: fd, ip6: ip6}
	fail := func(err error) (*rxSocket, error) {
		unix.Close(fd)
		return nil, &link.OpenError{Err: err}
	}
	s.vnet = setVnet(fd) == nil
	s.rcvbuf = sockio.GrowBuffer(fd, l.bufferBytes(), unix.SO_RCVBUF, unix.SO_RCVBUFFORCE)
	if err := l.filterFor(ip6).attach(fd); err != nil {
		return fail(os.NewSyscallError("setsockopt SO_ATTACH_FILTER", err))
	}
	if !l.opts.DisableRing && s.vnet {
		// Without it, for lack of memory or in an old kernel, all frames come by the queue.
		s.ring, _ = openRing(fd, ringSlots, l.longest())
	}
	if l.opts.VLAN != 0 {
		// Old kernels lack it; the filter does the same later.
		_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	}
	if err := s.bind(l, l.local.Indexes()[0]); err != nil {
		_ = s.ring.close()
		return fail(os.NewSyscallError("bind AF_PACKET", err))
	}
	return s, nil
}

// bind makes the socket receive: with a VLAN from one interface, otherwise from all.
func (s *rxSocket) bind(l *Link, index int) error {
	sa := &unix.SockaddrLinklayer{Protocol: hostToNet(etherType(s.ip6))}
	if l.opts.VLAN != 0 {
		// Tags are removed before sockets of one protocol get a frame.
		sa.Protocol, sa.Ifindex = hostToNet(unix.ETH_P_ALL), index
	}
	return unix.Bind(s.fd, sa)
}

// longest returns the length of the longest single packet that can arrive, in bytes of IP.
func (l *Link) longest() int {
	longest := 0
	for _, index := range l.local.Indexes() {
		k, _ := l.local.Hops.Link(index)
		longest = max(longest, k.MTU)
	}
	return min(longest, maxRingPacket)
}

func (l *Link) bufferBytes() int {
	if l.opts.SocketBufferBytes > 0 {
		return l.opts.SocketBufferBytes
	}
	return defaultSocketBuffer
}

func etherType(ip6 bool) uint16 {
	if ip6 {
		return unix.ETH_P_IPV6
	}
	return unix.ETH_P_IP
}
