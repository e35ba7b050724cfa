package edge

import (
	"encoding/binary"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// Path says how packets of a QP or an address handle travel. The engine owns it and keeps its
// address stable, so that a link can attach prepared state (socket address, ICRC of the flow).
type Path struct {
	Src, Dst netip.Addr

	LinkState

	SGIDIndex int    // index of Src in Config.GIDs
	SrcPort   uint16 // UDP source port for links that choose it per flow
	FlowLabel uint32
	// Light marks a path with little traffic. Links that gather packets send all light paths from
	// one port and with one flow label, so that they share datagrams.
	Light bool
	// Management marks a path to queue pair 1 of a peer: see link.Link.Returned.
	Management   bool
	TrafficClass uint8 // DSCP and ECN bits
	HopLimit     uint8
}

// LinkState is what the sending link keeps on a path, and reports about it.
type LinkState struct {
	// Link is state that the link has prepared. The engine sets it to nil when a field of the path
	// changes. LinkMark is for the link alone.
	Link     any
	LinkMark uint32

	// Unreachable counts packets that the link could not send on this path since it was set: no
	// route, no such source address, an interface that is down and, where the link resolves
	// neighbours itself, a silent one. It counts while it sends.
	Unreachable uint64

	// TooLong counts packets that exceeded what the link carries on this path: the interface now
	// has a smaller MTU, or a router reported one.
	TooLong uint64
}

// MaxTxFrags is how many pieces of registered memory a packet refers to directly. A packet from
// more pieces is copied into one.
const MaxTxFrags = 4

// TxPacket is one packet to send, complete except for IP, UDP and ICRC: header bytes, then the
// fragments, then Pad zero bytes, then the ICRC. The link owns the descriptors and reuses them.
type TxPacket struct {
	Path       *Path
	SrcQP      ib.QPN // local QP, for tracing and fault injection
	HeaderLen  uint8
	Pad        uint8
	NumFrags   uint8
	PayloadLen uint16 // sum of the fragments, without padding
	Header     [ib.MaxHeaderBytes]byte
	Frags      [MaxTxFrags][]byte

	// ICRCXor is xored into the ICRC by the link. Only fault injection sets it, and resets it to 0.
	ICRCXor uint32

	// scratch holds a payload copied from many pieces.
	scratch []byte
}

// Forget drops the references to path and payload, which otherwise live until the descriptor is
// reused.
func (p *TxPacket) Forget() {
	p.Path, p.Frags = nil, [MaxTxFrags][]byte{}
}

// Reset clears p except for a path and a local QP.
func (p *TxPacket) Reset(path *Path, qp ib.QPN) {
	*p = TxPacket{Path: path, SrcQP: qp, scratch: p.scratch}
}

// CopyBuffer returns n bytes that belong to the descriptor; n is at most a payload.
func (p *TxPacket) CopyBuffer(n int) []byte {
	if cap(p.scratch) < n {
		p.scratch = make([]byte, ib.MaxMTUBytes)
	}
	return p.scratch[:n:n]
}

// UDPPayloadLen returns the length from BTH through ICRC, in bytes.
func (p *TxPacket) UDPPayloadLen() int {
	return int(p.HeaderLen) + int(p.PayloadLen) + int(p.Pad) + ib.ICRCBytes
}

// Headers returns the BTH and extended headers.
func (p *TxPacket) Headers() []byte { return p.Header[:p.HeaderLen] }

// OpcodeAndPSN returns the opcode and PSN in the header.
func (p *TxPacket) OpcodeAndPSN() (ib.Opcode, ib.PSN) {
	return ib.Opcode(p.Header[0]), ib.PSN(binary.BigEndian.Uint32(p.Header[8:])) & ib.PSNMask
}

// Holds reports whether the byte at the real address addr is in the payload.
func (p *TxPacket) Holds(addr uint64) bool {
	for _, f := range p.Frags[:p.NumFrags] {
		if mem.Holds(f, addr) {
			return true
		}
	}
	return false
}

// AppendTo appends headers, payload and padding to b, without the ICRC. Tests use it, and links
// that cannot gather.
func (p *TxPacket) AppendTo(b []byte) []byte {
	b = append(b, p.Headers()...)
	for _, f := range p.Frags[:p.NumFrags] {
		b = append(b, f...)
	}
	return append(b, 0, 0, 0)[:len(b)+int(p.Pad)]
}

// RxPacket is one received packet. The link has verified its ICRC, or does so on request: see ICRC.
type RxPacket struct {
	Src, Dst     netip.Addr // IPv4 addresses are not mapped to IPv6
	TrafficClass uint8      // as received; the low two bits are ECN
	HopLimit     uint8
	SrcPort      uint16 // UDP source port, for tracing; 0 if unknown
	InRun        bool   // it shared a datagram with others
	ICRC         ICRCState
	// Data is the UDP payload from BTH through ICRC. The engine reads it only during HandlePacket.
	Data []byte
}

// ICRCState is the result of checking a packet's ICRC.
type ICRCState uint8

// The states.
const (
	ICRCRight ICRCState = iota
	ICRCUnknown
	ICRCWrong // treat the packet as lost; the link has counted it
)

// Checker is a link that hands up packets as ICRCUnknown.
type Checker interface {
	// Check reports whether the ICRC of p, packet i of the last batch, is right. The engine asks
	// once for each packet that is ICRCUnknown, in order, except that it may ask for an ACK before
	// the request in front of it in the same datagram.
	Check(i int, p *RxPacket) bool
}

// ECN codepoints, the low two bits of the traffic class (RFC 3168).
const (
	ECNMask = 3
	ECT0    = 2
	ECNCE   = 3
)
