// Package layers adds RoCE v2 to gopacket: layers for the base transport header and all extended
// headers.
//
//	layers.Register() // UDP port 4791 is RoCE v2 from now on
//	packet := gopacket.NewPacket(frame, gopacketlayers.LayerTypeEthernet, gopacket.Default)
//	if bth, ok := packet.Layer(layers.LayerTypeBTH).(*layers.BTH); ok { ... bth.Opcode, bth.PSN ... }
//	if reth, ok := packet.Layer(layers.LayerTypeRETH).(*layers.RETH); ok { ... reth.VA, reth.RKey ... }
//
// A packet consists of BTH, its extended headers in the order of the wire, ICRC, and payload. [BTH]
// is also a gopacket.DecodingLayer and a gopacket.SerializableLayer; as such it has all headers, in
// its ib.Packet.
//
// # Concurrency
//
// Call Register once, before packets are decoded.
package layers

import (
	"fmt"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/goroce/goroce/ib"
)

// The layer types. gopacket leaves numbers from 2000 up to applications.
var (
	LayerTypeBTH          = register(47910, "BTH", decodeBTH)
	LayerTypeDETH         = register(47911, "DETH", nil)
	LayerTypeFETH         = register(47912, "FETH", nil)
	LayerTypeRETH         = register(47913, "RETH", nil)
	LayerTypeAtomicETH    = register(47914, "AtomicETH", nil)
	LayerTypeAETH         = register(47915, "AETH", nil)
	LayerTypeAtomicAckETH = register(47916, "AtomicAckETH", nil)
	LayerTypeImmDt        = register(47917, "ImmDt", nil)
	LayerTypeIETH         = register(47918, "IETH", nil)
	LayerTypeICRC         = register(47919, "ICRC", nil)
)

func register(n int, name string, decode gopacket.DecodeFunc) gopacket.LayerType {
	m := gopacket.LayerTypeMetadata{Name: name}
	if decode != nil {
		m.Decoder = decode
	}
	return gopacket.RegisterLayerType(n, m)
}

// Register makes gopacket decode UDP to port 4791 as RoCE v2, in the whole program.
func Register() { layers.RegisterUDPPortLayerType(ib.UDPPort, LayerTypeBTH) }

// BTH is the base transport header. Its Packet has all headers.
type BTH struct {
	layers.BaseLayer
	ib.Packet
	// Flow, if set, is the input of SerializeTo for the ICRC (as is Ident, for IPv4).
	Flow  *ib.Flow
	Ident uint16
}

// The extended headers.
type (
	// DETH is the datagram extended transport header.
	DETH struct {
		layers.BaseLayer
		ib.DETH
	}
	// FETH is the header of FLUSH.
	FETH struct {
		layers.BaseLayer
		FETH ib.FETH
	}
	// RETH is the RDMA extended transport header.
	RETH struct {
		layers.BaseLayer
		ib.RETH
	}
	// AtomicETH is the header of atomics.
	AtomicETH struct {
		layers.BaseLayer
		ib.AtomicETH
	}
	// AETH is the acknowledge extended transport header.
	AETH struct {
		layers.BaseLayer
		ib.AETH
	}
	// AtomicAckETH is the original value, returned by an atomic.
	AtomicAckETH struct {
		layers.BaseLayer
		Original uint64
	}
	// ImmDt is immediate data.
	ImmDt struct {
		layers.BaseLayer
		Immediate uint32
	}
	// IETH is the key to invalidate.
	IETH struct {
		layers.BaseLayer
		RKey ib.RKey
	}
	// ICRC is the invariant CRC, which is behind the payload on the wire; its LayerPayload is the
	// packet's.
	ICRC struct {
		layers.BaseLayer
		ICRC uint32
		// Known says that the packet is in UDP over IP, so that Right could be determined.
		Known, Right bool
	}
)

// LayerType returns LayerTypeBTH.
func (*BTH) LayerType() gopacket.LayerType { return LayerTypeBTH }

// LayerType returns LayerTypeDETH.
func (*DETH) LayerType() gopacket.LayerType { return LayerTypeDETH }

// LayerType returns LayerTypeFETH.
func (*FETH) LayerType() gopacket.LayerType { return LayerTypeFETH }

// LayerType returns LayerTypeRETH.
func (*RETH) LayerType() gopacket.LayerType { return LayerTypeRETH }

// LayerType returns LayerTypeAtomicETH.
func (*AtomicETH) LayerType() gopacket.LayerType { return LayerTypeAtomicETH }

// LayerType returns LayerTypeAETH.
func (*AETH) LayerType() gopacket.LayerType { return LayerTypeAETH }

// LayerType returns LayerTypeAtomicAckETH.
func (*AtomicAckETH) LayerType() gopacket.LayerType { return LayerTypeAtomicAckETH }

// LayerType returns LayerTypeImmDt.
func (*ImmDt) LayerType() gopacket.LayerType { return LayerTypeImmDt }

// LayerType returns LayerTypeIETH.
func (*IETH) LayerType() gopacket.LayerType { return LayerTypeIETH }

// LayerType returns LayerTypeICRC.
func (*ICRC) LayerType() gopacket.LayerType { return LayerTypeICRC }

// CanDecode returns LayerTypeBTH.
func (*BTH) CanDecode() gopacket.LayerClass { return LayerTypeBTH }

// NextLayerType returns the type of the payload.
func (*BTH) NextLayerType() gopacket.LayerType { return gopacket.LayerTypePayload }

// DecodeFromBytes decodes all headers.
func (b *BTH) DecodeFromBytes(data []byte, df gopacket.DecodeFeedback) error {
	if err := b.Packet.Decode(data); err != ib.DecodeOK {
		if len(data) < ib.BTHBytes+ib.ICRCBytes {
			df.SetTruncated()
		}
		return err
	}
	b.BaseLayer = layers.BaseLayer{Contents: data[:b.HeaderLen], Payload: b.Packet.Payload}
	return nil
}

// LayerPayload returns the payload of the packet, without padding and ICRC.
func (b *BTH) LayerPayload() []byte { return b.BaseLayer.Payload }

// decodeBTH adds the layers of a packet: data is the UDP payload.
func decodeBTH(data []byte, p gopacket.PacketBuilder) error {
	b := &BTH{}
	if err := b.DecodeFromBytes(data, p); err != nil {
		return err
	}
	q := &b.Packet
	rest := data[ib.BTHBytes:]
	b.BaseLayer = layers.BaseLayer{Contents: data[:ib.BTHBytes], Payload: rest}
	p.AddLayer(b)
	next := func(n int) layers.BaseLayer {
		l := layers.BaseLayer{Contents: rest[:n], Payload: rest[n:]}
		rest = rest[n:]
		return l
	}
	h := q.Opcode.Info().Headers
	if h&ib.HasDETH != 0 {
		p.AddLayer(&DETH{next(ib.DETHBytes), q.DETH})
	}
	if h&ib.HasFETH != 0 {
		p.AddLayer(&FETH{next(ib.FETHBytes), q.FETH})
	}
	if h&ib.HasRETH != 0 {
		p.AddLayer(&RETH{next(ib.RETHBytes), q.RETH})
	}
	if h&ib.HasAtomicETH != 0 {
		p.AddLayer(&AtomicETH{next(ib.AtomicETHBytes), q.Atomic})
	}
	if h&ib.HasAETH != 0 {
		p.AddLayer(&AETH{next(ib.AETHBytes), q.AETH})
	}
	if h&ib.HasAtomicAckETH != 0 {
		p.AddLayer(&AtomicAckETH{next(ib.AtomicAckETHBytes), q.AtomicAck})
	}
	if h&ib.HasImmDt != 0 {
		p.AddLayer(&ImmDt{next(ib.ImmDtBytes), q.ImmDt})
	}
	if h&ib.HasIETH != 0 {
		p.AddLayer(&IETH{next(ib.IETHBytes), q.IETH})
	}
	end := len(data) - ib.ICRCBytes
	c := &ICRC{BaseLayer: layers.BaseLayer{Contents: data[end:], Payload: q.Payload}, ICRC: ib.TrailingICRC(data)}
	if builder, ok := p.(gopacket.Packet); ok {
		c.check(builder, data)
	}
	p.AddLayer(c)
	return p.NextDecoder(gopacket.LayerTypePayload)
}

// check compares the ICRC with the right one, if the IP and UDP headers of the packet were decoded.
func (c *ICRC) check(p gopacket.Packet, data []byte) {
	udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || int(udp.Length) != len(data)+ib.UDPHeaderBytes {
		return
	}
	f := ib.Flow{SrcPort: uint16(udp.SrcPort), DstPort: uint16(udp.DstPort)}
	ident, df := uint16(0), true
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		f.Src, f.Dst = addr(ip.SrcIP), addr(ip.DstIP)
		ident, df = ip.Id, ip.Flags&layers.IPv4DontFragment != 0
	case *layers.IPv6:
		f.Src, f.Dst = addr(ip.SrcIP), addr(ip.DstIP)
	default:
		return
	}
	icrc := ib.NewICRC(f)
	if !df {
		icrc = icrc.WithoutDF()
	}
	body := data[:len(data)-ib.ICRCBytes]
	c.Known = true
	c.Right = icrc.Checksum(ident, body) == c.ICRC ||
		ib.Opcode(data[0]) == ib.RCFlush && icrc.ChecksumFlushRxe(ident, body) == c.ICRC
}

// SerializeTo writes all headers before the payload, and padding and ICRC after it. With
// opts.FixLengths it sets Pad; with opts.ComputeChecksums it needs Flow.
func (b *BTH) SerializeTo(w gopacket.SerializeBuffer, opts gopacket.SerializeOptions) error {
	info := b.Opcode.Info()
	if info.HeaderLen == 0 {
		return fmt.Errorf("layers: opcode 0x%02x is not known", uint8(b.Opcode))
	}
	if opts.FixLengths {
		b.Pad = uint8(-len(w.Bytes()) & 3)
	}
	tail, err := w.AppendBytes(int(b.Pad) + ib.ICRCBytes)
	if err != nil {
		return err
	}
	clear(tail)
	head, err := w.PrependBytes(int(info.HeaderLen))
	if err != nil {
		return err
	}
	b.PutHeaders(head)
	if opts.ComputeChecksums {
		if b.Flow == nil {
			return fmt.Errorf("layers: the ICRC covers IP and UDP headers: set BTH.Flow")
		}
		all := w.Bytes()
		icrc := ib.NewICRC(*b.Flow)
		end := len(all) - ib.ICRCBytes
		ib.PutICRC(all[end:], icrc.Checksum(b.Ident, all[:end]))
	}
	return nil
}
