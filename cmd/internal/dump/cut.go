package dump

import (
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// saveCut writes the first bytes of a packet of a frame to the file of -w. Of a frame that holds
// several, which a host segments later or has merged, each becomes a frame of its own, as on the
// wire: cut as it is, all but the first would be gone.
func (d *dumper) saveCut(f *pcap.Frame, first, p *pcap.Packet, several bool) error {
	cut := *f
	// Data of packets are parts of the frame's.
	head := cap(f.Data) - cap(first.Data)
	if several && head >= ib.UDPHeaderBytes+ib.IPv4HeaderBytes && head <= len(f.Data) && first.Tunnel == "" {
		d.part = append(append(d.part[:0], f.Data[:head]...), p.Data...)
		asPart(d.part[:head], p)
		cut.Data, cut.WireBytes = d.part, head+p.Bytes
	}
	cut.Data = cut.Data[:min(len(cut.Data), d.o.snaplen)]
	return d.save(&cut)
}

// asPart makes the headers before a packet those that it would have alone: lengths, and of IPv4 the
// identification and the checksum. A UDP checksum of IPv4 becomes none.
func asPart(h []byte, p *pcap.Packet) {
	be := binary.BigEndian
	udp := h[len(h)-ib.UDPHeaderBytes:]
	be.PutUint16(udp[4:], uint16(ib.UDPHeaderBytes+p.Bytes))
	if !p.Flow.Src.Is4() {
		if at := len(h) - ib.UDPHeaderBytes - ib.IPv6HeaderBytes; at >= 0 {
			be.PutUint16(h[at+4:], uint16(ib.UDPHeaderBytes+p.Bytes))
		}
		return
	}
	be.PutUint16(udp[6:], 0)
	ip := h[len(h)-ib.UDPHeaderBytes-ib.IPv4HeaderBytes : len(h)-ib.UDPHeaderBytes]
	if ip[0] != 0x45 {
		return // options: of these there are none in RoCE
	}
	be.PutUint16(ip[2:], uint16(ib.IPv4HeaderBytes+ib.UDPHeaderBytes+p.Bytes))
	be.PutUint16(ip[4:], p.Ident+uint16(p.Part))
	be.PutUint16(ip[10:], 0)
	be.PutUint16(ip[10:], ^ib.InternetSum(0, ip))
}
