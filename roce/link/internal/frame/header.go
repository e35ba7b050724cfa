package frame

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
)

// Flow has the header fields of a flow of packets.
type Flow struct {
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	TrafficClass     uint8
	HopLimit         uint8 // 0: a default
	FlowLabel        uint32
	// VLAN, if not 0, is that of an 802.1Q tag, whose priority is the upper three bits of the DSCP.
	VLAN uint16
}

// Header is the template of the headers from Ethernet through UDP. As in rdma_rxe, the IPv4
// identification is 0 with DF, and the UDP checksum 0.
type Header struct {
	b      [maxHeaderBytes]byte
	n      int
	l3     int    // offset of the IP header
	sum    uint32 // of the constant 16-bit words of the IPv4 header
	pseudo uint32 // of those of the pseudo header of UDP
	ip6    bool
}

// Overhead returns the length of the IP and UDP headers for an address.
func Overhead(a netip.Addr) int {
	if a.Is6() {
		return ip6Overhead
	}
	return ip4Overhead
}

// Init makes the template of a flow between two MAC addresses.
func (h *Header) Init(f *Flow, src, dst [6]byte) {
	be := binary.BigEndian
	ttl := f.HopLimit
	if ttl == 0 {
		ttl = defaultTTL
	}
	h.ip6 = f.Dst.Is6()
	b := h.b[:0]
	b = append(append(b, dst[:]...), src[:]...)
	if f.VLAN != 0 {
		b = be.AppendUint16(b, unix.ETH_P_8021Q)
		b = be.AppendUint16(b, uint16(f.TrafficClass>>5)<<13|f.VLAN)
	}
	if h.ip6 {
		b = be.AppendUint16(b, unix.ETH_P_IPV6)
	} else {
		b = be.AppendUint16(b, unix.ETH_P_IP)
	}
	h.l3 = len(b)
	if h.ip6 {
		s, d := f.Src.As16(), f.Dst.As16()
		b = be.AppendUint32(b, 6<<28|uint32(f.TrafficClass)<<20|f.FlowLabel&0xFFFFF)
		b = append(b, 0, 0, unix.IPPROTO_UDP, ttl)
		b = append(append(b, s[:]...), d[:]...)
		h.pseudo = uint32(ib.InternetSum(unix.IPPROTO_UDP, b[h.l3+8:]))
	} else {
		s, d := f.Src.As4(), f.Dst.As4()
		b = append(b, 0x45, f.TrafficClass, 0, 0, 0, 0, 0x40, 0, ttl, unix.IPPROTO_UDP, 0, 0)
		b = append(append(b, s[:]...), d[:]...)
		h.sum = uint32(ib.InternetSum(0, b[h.l3:]))
		h.pseudo = uint32(ib.InternetSum(unix.IPPROTO_UDP, b[h.l3+12:]))
	}
	b = be.AppendUint16(b, f.SrcPort)
	b = be.AppendUint16(b, f.DstPort)
	b = append(b, 0, 0, 0, 0)
	h.n = len(b)
}

// Len returns the length of the headers in bytes.
func (h *Header) Len() int { return h.n }

// Put writes the headers of a packet with size bytes of UDP payload to b, which has at least Len
// bytes.
func (h *Header) Put(b []byte, size int) {
	be := binary.BigEndian
	b = b[:h.n]
	copy(b, h.b[:h.n])
	ip, length := b[h.l3:], uint16(size+ib.UDPHeaderBytes)
	if h.ip6 {
		be.PutUint16(ip[4:], length)
	} else {
		total := length + ib.IPv4HeaderBytes
		be.PutUint16(ip[2:], total)
		be.PutUint16(ip[10:], ^fold(h.sum+uint32(total)))
	}
	be.PutUint16(b[h.n-4:], length)
}

// Network returns the offset of the IP header.
func (h *Header) Network() int { return h.l3 }

// Transport returns the offset of the UDP header.
func (h *Header) Transport() int { return h.n - ib.UDPHeaderBytes }

// PutPartialChecksum sets the UDP checksum of headers that Put has written to the sum of the pseudo
// header; segmentation completes it. The checksum is at ChecksumOffset of the UDP header.
func (h *Header) PutPartialChecksum(b []byte, size int) {
	binary.BigEndian.PutUint16(b[h.Transport()+ChecksumOffset:], fold(h.pseudo+uint32(uint16(size+ib.UDPHeaderBytes))))
}

// fold is ib.InternetSum of no bytes, for each packet.
func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xFFFF
	return uint16(sum>>16 + sum)
}
