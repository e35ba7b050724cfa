package udp

import (
	"encoding/binary"

	"github.com/goroce/goroce/internal/unix"
)

// Control messages are encoded and decoded here: a header of length, level and type in host byte
// order, then the data, aligned to a word.

const (
	cmsgHeader = unix.SizeofCmsghdr
	// cmsgSpace is the room of a control message of up to 4 bytes of data.
	cmsgSpace = cmsgHeader + unix.SizeofPtr

	// txControl has room for UDP_SEGMENT, traffic class and hop limit.
	txControl = 3 * cmsgSpace
	// rxControl has room for UDP_GRO, traffic class, hop limit, and one more.
	rxControl = 4 * cmsgSpace
)

var native = binary.NativeEndian

// putCmsg writes a control message with n bytes of data (2 or 4) and returns the rest of b.
func putCmsg(b []byte, level, typ int32, v uint32, n int) []byte {
	if cmsgHeader == 16 {
		native.PutUint64(b, uint64(cmsgHeader+n))
	} else {
		native.PutUint32(b, uint32(cmsgHeader+n))
	}
	native.PutUint32(b[cmsgHeader-8:], uint32(level))
	native.PutUint32(b[cmsgHeader-4:], uint32(typ))
	clear(b[cmsgHeader:cmsgSpace])
	if n == 2 {
		native.PutUint16(b[cmsgHeader:], uint16(v))
	} else {
		native.PutUint32(b[cmsgHeader:], v)
	}
	return b[cmsgSpace:]
}

// rxInfo is the content of a received datagram's control messages.
type rxInfo struct {
	segment int // size of the segments, bytes; 0 for a datagram that is one packet
	tclass  uint8
	ttl     uint8
}

// parseControl reads the control messages that the sockets ask for. It never reads past b, whatever
// b contains.
func parseControl(b []byte) (info rxInfo) {
	info.ttl = defaultTTL
	for len(b) >= cmsgHeader {
		var n uint64
		if cmsgHeader == 16 {
			n = native.Uint64(b)
		} else {
			n = uint64(native.Uint32(b))
		}
		if n < cmsgHeader || n > uint64(len(b)) {
			return info
		}
		level, typ := native.Uint32(b[cmsgHeader-8:]), native.Uint32(b[cmsgHeader-4:])
		data := b[cmsgHeader:n]
		switch {
		case level == unix.IPPROTO_IP && typ == unix.IP_TOS && len(data) >= 1:
			info.tclass = data[0]
		case len(data) < 4:
		case level == unix.SOL_UDP && typ == unix.UDP_GRO:
			info.segment = int(native.Uint32(data))
		case level == unix.IPPROTO_IP && typ == unix.IP_TTL, level == unix.IPPROTO_IPV6 && typ == unix.IPV6_HOPLIMIT:
			info.ttl = uint8(native.Uint32(data))
		case level == unix.IPPROTO_IPV6 && typ == unix.IPV6_TCLASS:
			info.tclass = uint8(native.Uint32(data))
		}
		n = (n + unix.SizeofPtr - 1) &^ (unix.SizeofPtr - 1)
		if n >= uint64(len(b)) {
			return info
		}
		b = b[n:]
	}
	return info
}
