package wire

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// Path is how packets of a QP or an address handle travel. The engine owns
// it and keeps its address stable, so that a link can hang prepared state
// (socket address, ICRC of the flow) on it.
type Path struct {
	Src, Dst netip.Addr

	LinkState

	SGIDIndex int    // index of Src in Config.GIDs
	SrcPort   uint16 // UDP source port for links that choose it per flow
	FlowLabel uint32
	// Light says that little goes this way: links that gather packets send it from one port, and with one
	// flow label, with all else that is light, so that it shares datagrams.
	Light bool
	// Management says that this goes to queue pair 1 of a peer: see link.Link.Returned.
	Management   bool
	TrafficClass uint8 // DSCP and ECN bits
	HopLimit     uint8
}

// LinkState is what the link that sends on a path keeps there, and tells of it.
type LinkState struct {
	// Link is what the link has prepared. The engine sets it to nil whenever a field of the path
	// changes. LinkMark is the link's alone.
	Link     any
	LinkMark uint32

	// Unreachable counts packets that the link could not send on this path since
	// it was set: no route, a neighbour that does not answer, an interface that
	// is down. Links that resolve neighbours count it while they send.
	Unreachable uint64

	// TooLong counts the packets that the link could not send on this path because they are
	// longer than it carries: the interface has a smaller MTU by now, or a router said so.
	TooLong uint64
}

// MaxTxFrags is how many pieces of registered memory one packet refers to
// directly; a packet gathered from more pieces is copied together.
const MaxTxFrags = 4

// TxPacket is one packet to send, ready but for IP, UDP and ICRC: header
// bytes, then the fragments, then Pad zero bytes, then the ICRC. Descriptors
// belong to the link, which passes the same ones again and again.
type TxPacket struct {
	Path       *Path
	SrcQP      ib.QPN // local QP, for tracing and fault injection
	HeaderLen  uint8
	Pad        uint8
	NumFrags   uint8
	PayloadLen uint16 // sum of the fragments, without padding
	Header     [ib.MaxHeaderBytes]byte
	Frags      [MaxTxFrags][]byte

	// ICRCXor is xored into the ICRC by the link. Only fault injection sets it,
	// and sets it back to 0.
	ICRCXor uint32

	// scratch holds a payload that had to be copied together.
	scratch []byte
}

// Forget lets go of the path and the payload, which else stay in memory until the packet is used again.
func (p *TxPacket) Forget() {
	p.Path, p.Frags = nil, [MaxTxFrags][]byte{}
}

// Reset makes p a packet of nothing but a path and a local QP.
func (p *TxPacket) Reset(path *Path, qp ib.QPN) {
	*p = TxPacket{Path: path, SrcQP: qp, scratch: p.scratch}
}

// CopyBuffer returns n bytes, a payload's at most, that belong to the descriptor.
func (p *TxPacket) CopyBuffer(n int) []byte {
	if cap(p.scratch) < n {
		p.scratch = make([]byte, ib.MaxMTUBytes)
	}
	return p.scratch[:n:n]
}

// UDPPayloadLen returns the length from BTH through ICRC in bytes.
func (p *TxPacket) UDPPayloadLen() int {
	return int(p.HeaderLen) + int(p.PayloadLen) + int(p.Pad) + ib.ICRCBytes
}

// Headers returns the BTH and extended headers.
func (p *TxPacket) Headers() []byte { return p.Header[:p.HeaderLen] }

// OpcodeAndPSN reads back what the header says.
func (p *TxPacket) OpcodeAndPSN() (ib.Opcode, ib.PSN) {
	return ib.Opcode(p.Header[0]), ib.PSN(binary.BigEndian.Uint32(p.Header[8:])) & ib.PSNMask
}

// Holds reports whether the byte at a real address is in the payload.
func (p *TxPacket) Holds(addr uint64) bool {
	for _, f := range p.Frags[:p.NumFrags] {
		if mem.Holds(f, addr) {
			return true
		}
	}
	return false
}

// AppendTo appends headers, payload and padding, without the ICRC. Links that
// cannot gather, and tests, use it.
func (p *TxPacket) AppendTo(b []byte) []byte {
	b = append(b, p.Headers()...)
	for _, f := range p.Frags[:p.NumFrags] {
		b = append(b, f...)
	}
	return append(b, 0, 0, 0)[:len(b)+int(p.Pad)]
}

// RxPacket is one received packet. The link has verified its ICRC, or will when it is asked: see ICRC.
type RxPacket struct {
	Src, Dst     netip.Addr // IPv4 addresses as IPv4, not mapped
	TrafficClass uint8      // as received; the low two bits are ECN
	HopLimit     uint8
	SrcPort      uint16 // UDP source port, for tracing; 0 if the link does not say
	InRun        bool   // it came with others in one datagram
	ICRC         ICRCState
	// Data is the UDP payload from BTH through ICRC. The engine reads it only
	// during HandlePacket.
	Data []byte
}

// ICRCState says whether the ICRC of a packet is right.
type ICRCState uint8

// The states.
const (
	ICRCRight ICRCState = iota
	ICRCUnknown
	ICRCWrong // the packet is as good as lost, and the link has counted it
)

// Checker is a link that has handed up packets that are ICRCUnknown.
type Checker interface {
	// Check reports whether the ICRC of p, packet i of the last batch, is right. It is asked once for each packet that is
	// ICRCUnknown, in order, but for the ACK behind a request of the same datagram, which may be asked for first.
	Check(i int, p *RxPacket) bool
}

// ECN codepoints, the low two bits of the traffic class (RFC 3168).
const (
	ECNMask = 3
	ECT0    = 2
	ECNCE   = 3
)
