package pcap

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// ICRCState is the result of checking a packet's invariant CRC.
type ICRCState uint8

// The states.
const (
	ICRCUnchecked ICRCState = iota // the packet is cut, so it cannot be checked
	ICRCRight
	ICRCRightRxe // a FLUSH with the ICRC of Linux rdma_rxe: see ib.ICRC.ChecksumFlushRxe
	ICRCWrong
)

func (s ICRCState) String() string {
	return [...]string{"unchecked", "right", "right (rxe)", "wrong"}[s&3]
}

// Packet is a RoCE v2 packet in a capture, or an ICMP message about one.
type Packet struct {
	Frame  int   // number of the frame that contains it
	Part   int   // index among the packets of that frame, from 0
	AtNs   int64 // nanoseconds since 1970
	Iface  int
	Dir    Direction
	Tunnel string // "VXLAN" or "Geneve" if it was in a tunnel
	Tagged bool   // has an 802.1Q tag; VLAN and Priority are those of the innermost
	VLAN   uint16
	// Priority is the 3 bits of the tag.
	Priority uint8

	Flow         ib.Flow
	TrafficClass uint8 // the low two bits are ECN
	HopLimit     uint8
	FlowLabel    uint32 // IPv6
	Ident        uint16 // IPv4
	NoDF         bool   // IPv4: may be fragmented

	// Bytes is the length from BTH through ICRC on the wire, Data the captured part of it.
	Bytes int
	Data  []byte

	// The decoded headers. If Problem is not empty they are set as far as they could be read.
	ib.Packet
	PayloadBytes int // on the wire; Payload may be shorter
	ICRC         ICRCState
	Problem      string // why the packet is bad, apart from the ICRC

	// ICMP is set if this is a message that a router or host sent back: the rest of the Packet is
	// then the RoCE packet that it quotes, as far as it is quoted.
	ICMP *ICMP
}

// ICMP is a message of a router or host about a RoCE packet.
type ICMP struct {
	From   netip.Addr // the sender
	What   ICMPKind
	MTU    int // TooBig: the longest IP packet that fits the link there, in bytes
	Type   uint8
	Code   uint8
	HasBTH bool // the quote is long enough for DestQP, PSN and Opcode
}

// ICMPKind is the kind of an ICMP message.
type ICMPKind uint8

// The kinds.
const (
	Unreachable     ICMPKind = iota // the host or network cannot be reached
	PortUnreachable                 // nothing listens on the UDP port
	TooBig                          // the packet does not fit a link and may not be fragmented
	Prohibited                      // a firewall forbids it
)

func (k ICMPKind) String() string {
	return [...]string{"host unreachable", "port unreachable", "packet too big", "prohibited"}[k&3]
}

// CE reports whether a switch has marked the packet with congestion experienced.
func (p *Packet) CE() bool { return p.TrafficClass&3 == 3 }

// Cut reports whether the capture has less than the whole packet.
func (p *Packet) Cut() bool { return len(p.Data) < p.Bytes }

// decodeHeaders reads the transport headers of p.Data, which may be cut.
func (p *Packet) decodeHeaders() {
	b := p.Data
	if p.Cut() {
		// Decode needs a whole packet: if the headers are there, the available bytes with an empty
		// payload are one.
		if len(b) < ib.BTHBytes {
			p.Problem = "the capture has less than the base transport header"
			return
		}
		n := int(ib.Opcode(b[0]).Info().HeaderLen)
		pad := int(b[1] >> 4 & 3)
		if n != 0 && len(b) >= n {
			b = append(append(make([]byte, 0, 64), b[:n]...), make([]byte, pad+ib.ICRCBytes)...)
		}
		err := p.Packet.Decode(b)
		p.Payload = nil
		if err != ib.DecodeOK {
			p.Problem = problem(err)
			return
		}
		p.Payload = p.Data[n:]
		p.PayloadBytes = max(p.Bytes-n-pad-ib.ICRCBytes, 0)
		return
	}
	if err := p.Packet.Decode(b); err != ib.DecodeOK {
		p.Payload = nil
		p.Problem = problem(err)
		return
	}
	p.PayloadBytes = len(p.Payload)
}

func problem(e ib.DecodeError) string {
	switch e {
	case ib.ErrShortBTH:
		return "shorter than the base transport header"
	case ib.ErrUnknownOpcode:
		return "unknown opcode"
	case ib.ErrShortHeaders:
		return "shorter than its headers, padding and ICRC"
	case ib.ErrTransportVersion:
		return "the version of the transport header is not 0"
	}
	return e.Error()
}
