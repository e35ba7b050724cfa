package packet

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"golang.org/x/sys/unix"
)

// datagram is what is left of a received frame.
type datagram struct {
	data    []byte // UDP payloads, BTH through ICRC
	src     link.Source
	ident   uint16 // IPv4 identification of the first packet
	tclass  uint8
	ttl     uint8
	segment int // length of the packets but the last, bytes; 0 for a single packet
	index   int // of the next packet
}

// frameVerdict is the outcome of the parsing of a frame.
type frameVerdict uint8

const (
	frameOK        frameVerdict = iota
	frameMalformed              // not IP and UDP as they must be
	frameLong                   // longer than any packet, and not a run of packets
)

// parseFrame reads a frame with its virtio header, if it has one. It trusts
// nothing, although the filter has looked at most of it.
func parseFrame(d *datagram, b []byte, vnet bool, port uint16) frameVerdict {
	segment := 0
	if vnet {
		if len(b) < vnetBytes {
			return frameMalformed
		}
		switch b[1] &^ unix.VIRTIO_NET_HDR_GSO_ECN {
		case unix.VIRTIO_NET_HDR_GSO_NONE:
		case unix.VIRTIO_NET_HDR_GSO_UDP_L4:
			if segment = int(native.Uint16(b[4:])); segment == 0 {
				return frameMalformed
			}
		default:
			return frameMalformed
		}
		b = b[vnetBytes:]
	}
	if len(b) < ethernetBytes+ip4Overhead {
		return frameMalformed
	}
	be := binary.BigEndian
	proto := be.Uint16(b[12:])
	ip := b[ethernetBytes:]
	*d = datagram{segment: segment}
	switch proto {
	case unix.ETH_P_IP:
		total := int(be.Uint16(ip[2:]))
		flags := be.Uint16(ip[6:])
		// The ICRC covers reserved and DF bit, too; a fragment is no packet.
		if ip[0] != 0x45 || ip[9] != unix.IPPROTO_UDP || flags&^0x4000 != 0 || total < ip4Overhead || total > len(ip) {
			return frameMalformed
		}
		d.src.Src = netip.AddrFrom4([4]byte(ip[12:16]))
		d.src.Dst = netip.AddrFrom4([4]byte(ip[16:20]))
		d.src.NoDF = flags&0x4000 == 0
		d.ident, d.tclass, d.ttl = be.Uint16(ip[4:]), ip[1], ip[8]
		ip = ip[ib.IPv4HeaderBytes:total]
	case unix.ETH_P_IPV6:
		if len(ip) < ip6Overhead {
			return frameMalformed
		}
		n := int(be.Uint16(ip[4:]))
		if ip[0]>>4 != 6 || ip[6] != unix.IPPROTO_UDP || n < ib.UDPHeaderBytes || ib.IPv6HeaderBytes+n > len(ip) {
			return frameMalformed
		}
		d.src.Src = netip.AddrFrom16([16]byte(ip[8:24]))
		d.src.Dst = netip.AddrFrom16([16]byte(ip[24:40]))
		d.tclass, d.ttl = uint8(be.Uint16(ip)>>4), ip[7]
		ip = ip[ib.IPv6HeaderBytes:][:n]
	default:
		return frameMalformed
	}
	if d.src.Src.IsMulticast() || be.Uint16(ip[2:]) != port || int(be.Uint16(ip[4:])) != len(ip) {
		return frameMalformed
	}
	d.src.SrcPort = be.Uint16(ip)
	d.data = ip[ib.UDPHeaderBytes:]
	if segment == 0 && len(d.data) > ib.MaxPacketBytes || segment > ib.MaxPacketBytes {
		return frameLong
	}
	return frameOK
}
