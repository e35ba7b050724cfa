package packet

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
)

// filter is a classic BPF program under construction. Loads of headers are relative to the network
// header, wherever the link layer ends.
type filter []unix.SockFilter

const (
	// filterPass is the number of bytes of a packet that the socket gets.
	filterPass = 1 << 18

	// Offsets of pseudo fields (SKF_AD_* of linux/filter.h).
	adBase    = -0x1000
	netBase   = -0x100000
	adProto   = adBase + 0
	adPktType = adBase + 4
	adIfIndex = adBase + 8
	adHaType  = adBase + 28
	adVLAN    = adBase + 44
	adHasVLAN = adBase + 48

	ldw = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	ldh = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
	ldb = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	jeq = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jgt = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	jst = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	rsh = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
	and = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	ja  = unix.BPF_JMP | unix.BPF_JA
	ret = unix.BPF_RET | unix.BPF_K
)

func (f *filter) op(code uint16, k int, jumps ...uint8) {
	in := unix.SockFilter{Code: code, K: uint32(int32(k))}
	if len(jumps) == 2 {
		in.Jt, in.Jf = jumps[0], jumps[1]
	}
	*f = append(*f, in)
}

func (f *filter) load(code uint16, at int) { f.op(code, at) }

// must rejects the packet unless the loaded value equals k.
func (f *filter) must(k int) {
	f.op(jeq, k, 1, 0)
	f.op(ret, 0)
}

// onlyIf runs the program other only if the loaded value equals k; otherwise a jump skips it.
func (f *filter) onlyIf(k int, other filter) {
	f.op(jeq, k, 1, 0)
	f.op(ja, len(other))
	*f = append(*f, other...)
}

// filterConfig determines the filter of a socket.
type filterConfig struct {
	ip6   bool
	port  uint16
	vlan  uint16 // 0: the socket gets one protocol, without tags
	addrs []netip.Addr
	slot  ib.Slot // the slot whose packets pass
}

// build assembles the filter.
func (c *filterConfig) build() filter {
	var f filter
	// To this host, broadcast or multicast; not to others, and not outgoing.
	f.load(ldw, adPktType)
	f.op(jgt, unix.PACKET_MULTICAST, 0, 1)
	f.op(ret, 0)
	// Frames begin with an Ethernet header.
	f.load(ldw, adHaType)
	f.op(jeq, unix.ARPHRD_ETHER, 2, 0)
	f.must(unix.ARPHRD_LOOPBACK)
	if c.vlan != 0 {
		f.load(ldw, adHasVLAN)
		f.must(1)
		f.load(ldw, adVLAN)
		f.op(and, 0xFFF)
		f.must(int(c.vlan))
		f.load(ldw, adProto)
		if c.ip6 {
			f.must(unix.ETH_P_IPV6)
		} else {
			f.must(unix.ETH_P_IP)
		}
	}
	if c.ip6 {
		c.ip6Checks(&f)
	} else {
		c.ip4Checks(&f)
	}
	return f
}

func (c *filterConfig) ip4Checks(f *filter) {
	f.load(ldb, netBase) // no options
	f.must(0x45)
	f.load(ldb, netBase+9)
	f.must(unix.IPPROTO_UDP)
	f.load(ldh, netBase+6) // no fragment
	f.op(jst, 0x3FFF, 0, 1)
	f.op(ret, 0)
	f.load(ldh, netBase+22)
	f.must(int(c.port))
	c.slotCheck(f, netBase+ib.IPv4HeaderBytes)

	// Source 127/8 only by the loopback interface.
	f.load(ldb, netBase+12)
	f.onlyIf(127, mustBeLoopback())

	var near, far filter
	for i, a := range c.family() {
		b := a.As4()
		k := int(int32(binary.BigEndian.Uint32(b[:])))
		if i == maxFilterAddrs4 {
			far.op(ret, filterPass)
			break
		}
		list := &far
		if a.IsLoopback() {
			list = &near
		}
		list.op(jeq, k, 0, 1)
		list.op(ret, filterPass)
	}
	f.destinations(near, far, filter{{Code: ldw, K: uint32(0xFFFFFFFF & (netBase + 16))}})
}

func (c *filterConfig) ip6Checks(f *filter) {
	f.load(ldb, netBase)
	f.op(and, 0xF0)
	f.must(0x60)
	f.load(ldb, netBase+6) // no extension headers
	f.must(unix.IPPROTO_UDP)
	f.load(ldh, netBase+42)
	f.must(int(c.port))
	c.slotCheck(f, netBase+ib.IPv6HeaderBytes)

	var near, far filter
	// Source ::1 only by the loopback interface: 8+3 words, compared in turn.
	f.words(netip.IPv6Loopback(), netBase+8, mustBeLoopback())
	for i, a := range c.family() {
		if i == maxFilterAddrs6 {
			far.op(ret, filterPass)
			break
		}
		list := &far
		if a.IsLoopback() {
			list = &near
		}
		list.words(a, netBase+24, filter{{Code: ret, K: filterPass}})
	}
	f.destinations(near, far, nil)
}

// slotCheck rejects packets to queue pairs of other slots; udp is the offset of the UDP header.
// Packets that name no slot pass: those to queue pair 1 or to groups, and those that are too short.
func (c *filterConfig) slotCheck(f *filter, udp int) {
	if c.slot.Bits == 0 {
		return
	}
	f.load(ldh, udp+4)
	f.op(jgt, ib.UDPHeaderBytes+7, 0, 7)
	f.load(ldw, udp+ib.UDPHeaderBytes+4)
	f.op(and, int(ib.QPNMask))
	f.op(jeq, int(ib.QPNGSI), 4, 0)
	f.op(jeq, int(ib.QPNMulticast), 3, 0)
	f.op(rsh, 24-int(c.slot.Bits))
	f.must(int(c.slot.Index))
}

// words runs then if the 16 bytes at the offset equal a.
func (f *filter) words(a netip.Addr, at int, then filter) {
	b := a.As16()
	for i := range 4 {
		f.load(ldw, at+4*i)
		rest := 3*(3-i) + len(then) // instructions to skip after the jump
		f.op(jeq, int(int32(binary.BigEndian.Uint32(b[4*i:]))), 1, 0)
		f.op(ja, rest)
	}
	*f = append(*f, then...)
}

// mustBeLoopback rejects packets that came by another interface.
func mustBeLoopback() filter {
	var f filter
	f.load(ldw, adIfIndex)
	f.must(loopbackIndex)
	return f
}

// destinations ends the program: near has the comparisons with loopback addresses, far those with
// others; load precedes either.
func (f *filter) destinations(near, far, load filter) {
	if len(near) > 0 {
		f.load(ldw, adIfIndex)
		f.onlyIf(loopbackIndex, append(append(filter{}, load...), near...))
	}
	*f = append(append(*f, load...), far...)
	f.op(ret, 0)
}

// family returns the addresses of the filter's family.
func (c *filterConfig) family() []netip.Addr {
	var out []netip.Addr
	for _, a := range c.addrs {
		if a.Is6() == c.ip6 {
			out = append(out, a)
		}
	}
	return out
}

// attach sets the filter of a socket, in place of the previous one.
func (f filter) attach(fd int) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]})
}
