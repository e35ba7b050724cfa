package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Netlink messages are in host byte order and aligned to 4 bytes.
var native = binary.NativeEndian

func align4(n int) int { return (n + 3) &^ 3 }

// message builds a request.
type message []byte

// newMessage starts a message with its fixed part of n bytes.
func newMessage(typ, flags uint16, n int) message {
	b := make(message, unix.SizeofNlMsghdr+align4(n))
	native.PutUint16(b[4:], typ)
	native.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	return b
}

func (b message) fixed() []byte { return b[unix.SizeofNlMsghdr:] }

// attr appends an attribute.
func (b message) attr(typ uint16, data []byte) message {
	h := make([]byte, unix.SizeofRtAttr, unix.SizeofRtAttr+align4(len(data)))
	native.PutUint16(h, uint16(unix.SizeofRtAttr+len(data)))
	native.PutUint16(h[2:], typ)
	h = append(h, data...)
	return append(b, append(h, 0, 0, 0)[:align4(len(h))]...)
}

func (b message) attr32(typ uint16, v uint32) message {
	return b.attr(typ, native.AppendUint32(nil, v))
}

// finish sets length and sequence number.
func (b message) finish(seq uint32) []byte {
	native.PutUint32(b, uint32(len(b)))
	native.PutUint32(b[8:], seq)
	return b
}

// header is what matters of struct nlmsghdr.
type header struct {
	typ, flags uint16
	seq        uint32
}

// messages calls f for each message in b until it returns false. It never
// reads past b, whatever b holds.
func messages(b []byte, f func(h header, body []byte) bool) {
	for len(b) >= unix.SizeofNlMsghdr {
		n := int(native.Uint32(b))
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return
		}
		h := header{native.Uint16(b[4:]), native.Uint16(b[6:]), native.Uint32(b[8:])}
		if !f(h, b[unix.SizeofNlMsghdr:n]) {
			return
		}
		b = b[min(align4(n), len(b)):]
	}
}

// attributes calls f for each attribute in b.
func attributes(b []byte, f func(typ uint16, data []byte)) {
	for len(b) >= unix.SizeofRtAttr {
		n := int(native.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return
		}
		f(native.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofRtAttr:n])
		b = b[min(align4(n), len(b)):]
	}
}

func u32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return native.Uint32(b)
}

func ipAddr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
