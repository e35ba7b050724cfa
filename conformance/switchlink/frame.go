package switchlink

import (
	"net/netip"
	"slices"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/trace"
	"github.com/goroce/goroce/transport"
)

const ethBytes = 14

// The two ends' Ethernet addresses: locally administered, and never on a cable.
var macs = map[string][6]byte{Near: {2, 0, 0, 0, 0, 1}, Far: {2, 0, 0, 0, 0, 2}}

// identifier makes frames of received packets.
type identifier struct{ made trace.Headers }

// frame makes the frame that a packet came in.
func (d *identifier) frame(p *transport.RxPacket) []byte {
	s := link.Source{Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort}
	b := trace.AppendHeaders(ethernet(Far, s), s, p.TrafficClass, p.HopLimit, d.made.Identification(s, p.Data), p.Data)
	return append(b, p.Data...)
}

// maxFlows bounds the paths kept; beyond it they are found anew.
const maxFlows = 4096

// flows makes frames of packets to send, and packets of frames.
type flows struct {
	identifier
	link  link.Link
	paths map[link.Source]*transport.Path // copies, for frames that the device does not send by itself
}

func newFlows(l link.Link) flows {
	return flows{link: l, paths: map[link.Source]*transport.Path{}}
}

// frame makes the frame of a packet; false if there can be none.
func (f *flows) frame(p *transport.TxPacket) ([]byte, bool) {
	if p.Path.Src.Is4() != p.Path.Dst.Is4() {
		return nil, false
	}
	s := link.Source{Src: p.Path.Src, Dst: p.Path.Dst, SrcPort: f.link.SourcePort(p.Path)}
	if len(f.paths) >= maxFlows {
		clear(f.paths)
	}
	if f.paths[s] == nil || f.paths[s].SrcPort != p.Path.SrcPort || f.paths[s].FlowLabel != p.Path.FlowLabel {
		own := *p.Path
		own.Link, own.LinkMark = nil, 0
		f.paths[s] = &own
	}
	packet := link.AppendPacket(nil, f.made.ICRC(s), p, 0)
	b := trace.AppendHeaders(ethernet(Near, s), s, p.Path.TrafficClass, p.Path.HopLimit, 0, packet)
	return append(b, packet...), true
}

// packet makes the packet to send of a frame; false if the frame is not the way to any peer that
// the device has sent to.
func (f *flows) packet(o *outgoing) (transport.TxPacket, bool) {
	p, ok := ether.Decode(o.frame)
	if !ok {
		return transport.TxPacket{}, false
	}
	path := o.path
	tc, _ := p.IPClass()
	if path == nil || path.TrafficClass != tc {
		known := f.paths[link.Source{Src: p.Src, Dst: p.Dst, SrcPort: p.SrcPort}]
		if known == nil {
			return transport.TxPacket{}, false
		}
		if path = known; path.TrafficClass != tc {
			marked := *known // few: a path for each is no matter
			marked.Link, marked.LinkMark, marked.TrafficClass = nil, 0, tc
			path = &marked
		}
	}
	b := p.BTH()
	b = b[:len(b)-icrcBytes]
	head := min(max(int(ib.Opcode(p.Opcode).Info().HeaderLen), ib.BTHBytes), len(b))
	tx := transport.TxPacket{Path: path, HeaderLen: uint8(head), PayloadLen: uint16(len(b) - head), ICRCXor: wrongBy(p)}
	copy(tx.Header[:], b[:head])
	if len(b) > head {
		tx.Frags[0], tx.NumFrags = b[head:], 1
	}
	return tx, true
}

// SentHeaders are the IP and UDP headers of a packet to port 4791, as far as they matter to the
// reader of a capture, with identification 0.
func SentHeaders(src, dst netip.Addr, srcPort uint16, tclass uint8, payload []byte) []byte {
	return trace.AppendHeaders(nil, link.Source{Src: src, Dst: dst, SrcPort: srcPort}, tclass, 64, 0, payload)
}

// SeenHeaders are those of a packet that has come, with the identification that its ICRC fits: a
// socket does not show it.
func SeenHeaders(src, dst netip.Addr, srcPort uint16, tclass uint8, payload []byte) []byte {
	s := link.Source{Src: src, Dst: dst, SrcPort: srcPort}
	return trace.AppendHeaders(nil, s, tclass, 64, new(trace.Headers).Identification(s, payload), payload)
}

// ethernet begins a frame.
func ethernet(from string, s link.Source) []byte {
	to := Near
	if from == Near {
		to = Far
	}
	dst, src := macs[to], macs[from]
	b := slices.Concat(dst[:], src[:])
	if s.Src.Is4() {
		return append(b, 0x08, 0x00)
	}
	return append(b, 0x86, 0xdd)
}
