package switchlink

import (
	"encoding/binary"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
)

const (
	vnetBytes = 10
	tagBytes  = 4
)

// vnet is struct virtio_net_hdr: what the kernel or the card has left undone of a frame, its
// checksum and its division into packets.
type vnet []byte

// Fields.
const (
	vnetFlags     = 0
	vnetGSOType   = 1
	vnetHdrLen    = 2
	vnetGSOSize   = 4
	vnetCsumStart = 6
	vnetCsumOff   = 8

	needsCsum = 1
	gsoUDP    = 5    // VIRTIO_NET_HDR_GSO_UDP_L4
	gsoECN    = 0x80 // beside a type
)

var (
	be = binary.BigEndian
	ne = binary.NativeEndian
)

func (h vnet) gso() (size int, udp bool) {
	if h[vnetGSOType]&^gsoECN == unix.VIRTIO_NET_HDR_GSO_NONE {
		return 0, false
	}
	return int(ne.Uint16(h[vnetGSOSize:])), h[vnetGSOType]&^gsoECN == gsoUDP
}

// packets returns the RoCE packets of a frame, each a frame of its own with all its checksums; nil
// if it is another frame.
func (h vnet) packets(f []byte) [][]byte {
	size, udp := h.gso()
	p, ok := ether.Decode(f)
	if !ok || size > 0 && !udp {
		return nil
	}
	if size <= 0 {
		one := append([]byte(nil), p.Frame...)
		if h[vnetFlags]&needsCsum != 0 {
			fillChecksum(one, int(ne.Uint16(h[vnetCsumStart:])), int(ne.Uint16(h[vnetCsumOff:])))
		}
		return [][]byte{one}
	}
	head := len(p.Frame) - len(p.BTH())
	var all [][]byte
	for part, body := 0, p.BTH(); len(body) > 0; part++ {
		n := min(size, len(body))
		one := append(append(make([]byte, 0, head+n), p.Frame[:head]...), body[:n]...)
		body = body[n:]
		asSegment(one, head, part, p.Is4())
		all = append(all, one)
	}
	return all
}

// asSegment makes the headers those of one packet of several, as the kernel or a card does:
// lengths, identification, checksums.
func asSegment(f []byte, head, part int, v4 bool) {
	udp := f[head-ib.UDPHeaderBytes:]
	be.PutUint16(udp[4:], uint16(len(udp)))
	be.PutUint16(udp[6:], 0)
	var addrs []byte // those of the pseudo header
	if v4 {
		ip := f[head-ib.UDPHeaderBytes-ib.IPv4HeaderBytes:]
		be.PutUint16(ip[2:], uint16(len(ip)))
		be.PutUint16(ip[4:], be.Uint16(ip[4:])+uint16(part))
		be.PutUint16(ip[10:], 0)
		be.PutUint16(ip[10:], ^ib.InternetSum(0, ip[:ib.IPv4HeaderBytes]))
		addrs = ip[12:ib.IPv4HeaderBytes]
	} else {
		ip := f[head-ib.UDPHeaderBytes-ib.IPv6HeaderBytes:]
		be.PutUint16(ip[4:], uint16(len(udp)))
		addrs = ip[8:ib.IPv6HeaderBytes]
	}
	c := ^ib.InternetSum(unix.IPPROTO_UDP+uint32(len(udp)), addrs, udp)
	if c == 0 {
		c = 0xFFFF
	}
	be.PutUint16(udp[6:], c)
}

// fillChecksum computes the checksum that was left to the card: the field holds the sum of the
// pseudo header. What is behind the packet is padding, and no part of it.
func fillChecksum(f []byte, start, off int) {
	if start+off+2 > len(f) {
		return // it is not as the kernel says
	}
	c := ^ib.InternetSum(0, f[start:])
	if c == 0 {
		c = 0xFFFF
	}
	be.PutUint16(f[start+off:], c)
}

// putTag puts the VLAN tag, which the card or the kernel has taken out, back into a frame of n
// bytes, vnet header included. There is room for it behind.
func putTag(buf []byte, n int, oob []byte) []byte {
	tci, tpid, ok := tagOf(oob)
	if !ok {
		return buf[:n]
	}
	const at = vnetBytes + 12
	b := buf[:n+tagBytes]
	copy(b[at+tagBytes:], b[at:n])
	be.PutUint16(b[at:], tpid)
	be.PutUint16(b[at+2:], tci)
	h := b[:vnetBytes]
	if h[vnetFlags]&needsCsum != 0 {
		ne.PutUint16(h[vnetCsumStart:], ne.Uint16(h[vnetCsumStart:])+tagBytes)
	}
	if h[vnetGSOType] != unix.VIRTIO_NET_HDR_GSO_NONE {
		ne.PutUint16(h[vnetHdrLen:], ne.Uint16(h[vnetHdrLen:])+tagBytes)
	}
	return b
}

// tagOf reads struct tpacket_auxdata.
func tagOf(oob []byte) (tci, tpid uint16, ok bool) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, 0, false
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < 20 {
			continue
		}
		status := ne.Uint32(m.Data)
		tpid = 0x8100
		if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			tpid = ne.Uint16(m.Data[18:])
		}
		return ne.Uint16(m.Data[16:]), tpid, status&unix.TP_STATUS_VLAN_VALID != 0
	}
	return 0, 0, false
}
