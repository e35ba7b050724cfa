package packet

import (
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/frame"
	"github.com/goroce/goroce/roce/link/internal/receive"
)

// parseFrame reads a frame with its virtio header, if vnet says that it has one. It trusts nothing,
// although the filter has checked most of it.
func parseFrame(d *receive.Datagram, b []byte, vnet bool, port uint16) bool {
	segment := 0
	if vnet {
		if len(b) < vnetBytes {
			return false
		}
		switch b[1] &^ unix.VIRTIO_NET_HDR_GSO_ECN {
		case unix.VIRTIO_NET_HDR_GSO_NONE:
		case unix.VIRTIO_NET_HDR_GSO_UDP_L4:
			if segment = int(native.Uint16(b[4:])); segment == 0 {
				return false
			}
		default:
			return false
		}
		b = b[vnetBytes:]
	}
	if !frame.Parse(d, b, port) {
		return false
	}
	d.Segment = segment
	return true
}
