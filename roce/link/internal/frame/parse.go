package frame

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/receive"
)

// Parse reads an Ethernet frame, which may have a VLAN tag, with a UDP packet to the port. It
// trusts nothing, whatever a filter may have checked, and accepts neither fragments nor IPv4
// options nor IPv6 extension headers. Bytes behind the IP packet are padding. It leaves d.Segment
// 0, which the frame does not tell. It ignores the UDP checksum, which may be partial; the ICRC
// covers more.
func Parse(d *receive.Datagram, b []byte, port uint16) bool {
	be := binary.BigEndian
	if len(b) < EthernetBytes+ip4Overhead {
		return false
	}
	proto, ip := be.Uint16(b[12:]), b[EthernetBytes:]
	if proto == unix.ETH_P_8021Q {
		if len(ip) < VLANTagBytes+ip4Overhead {
			return false
		}
		proto, ip = be.Uint16(ip[2:]), ip[VLANTagBytes:]
	}
	*d = receive.Datagram{Known: true}
	switch proto {
	case unix.ETH_P_IP:
		total, flags := int(be.Uint16(ip[2:])), be.Uint16(ip[6:])
		if ip[0] != 0x45 || ip[9] != unix.IPPROTO_UDP || flags&^0x4000 != 0 || total < ip4Overhead || total > len(ip) {
			return false
		}
		d.Source.Src = netip.AddrFrom4([4]byte(ip[12:16]))
		d.Source.Dst = netip.AddrFrom4([4]byte(ip[16:20]))
		d.Source.NoDF = flags&0x4000 == 0
		d.Ident, d.TrafficClass, d.HopLimit = be.Uint16(ip[4:]), ip[1], ip[8]
		ip = ip[ib.IPv4HeaderBytes:total]
	case unix.ETH_P_IPV6:
		if len(ip) < ip6Overhead {
			return false
		}
		n := int(be.Uint16(ip[4:]))
		if ip[0]>>4 != 6 || ip[6] != unix.IPPROTO_UDP || n < ib.UDPHeaderBytes || ib.IPv6HeaderBytes+n > len(ip) {
			return false
		}
		d.Source.Src = netip.AddrFrom16([16]byte(ip[8:24]))
		d.Source.Dst = netip.AddrFrom16([16]byte(ip[24:40]))
		d.TrafficClass, d.HopLimit = uint8(be.Uint16(ip)>>4), ip[7]
		ip = ip[ib.IPv6HeaderBytes:][:n]
	default:
		return false
	}
	if d.Source.Src.IsMulticast() || be.Uint16(ip[2:]) != port || int(be.Uint16(ip[4:])) != len(ip) {
		return false
	}
	d.Source.SrcPort = be.Uint16(ip)
	d.Data = ip[ib.UDPHeaderBytes:]
	return true
}
