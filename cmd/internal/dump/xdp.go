package dump

import (
	"net"

	"github.com/goroce/goroce/internal/unix"
)

// xdpAttached reports whether a program of XDP is at an interface, and is known to be.
func xdpAttached(name string) bool {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	rib, err := unix.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return false
	}
	msgs, err := unix.ParseNetlinkMessage(rib)
	if err != nil {
		return false
	}
	for _, m := range msgs {
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg ||
			int(int32(ne.Uint32(m.Data[4:]))) != i.Index {
			continue
		}
		attrs, err := unix.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return false
		}
		for _, a := range attrs {
			if a.Attr.Type&^unix.NLA_F_NESTED == unix.IFLA_XDP {
				return xdpMode(a.Value) != 0
			}
		}
	}
	return false
}

// xdpMode reads IFLA_XDP_ATTACHED of nested attributes: 0 is none.
func xdpMode(b []byte) byte {
	const header = 4
	for len(b) >= header {
		n, typ := int(ne.Uint16(b)), ne.Uint16(b[2:])
		if n < header || n > len(b) {
			return 0
		}
		if typ == unix.IFLA_XDP_ATTACHED && n > header {
			return b[header]
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return 0
}
