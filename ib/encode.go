package ib

import "encoding/binary"

// PutHeaders writes the BTH and the extended headers of p.Opcode into b and returns their length.
// It panics if b is shorter than that; a buffer of [MaxHeaderBytes] is always enough. An unknown
// opcode writes nothing and returns 0.
func (p *Packet) PutHeaders(b []byte) int {
	info := &opcodes[p.Opcode]
	n := int(info.HeaderLen)
	if n == 0 {
		return 0
	}
	p.putBTH(b[:BTHBytes:BTHBytes])
	if info.Headers != 0 {
		p.putExtended(info.Headers, b[BTHBytes:n])
	}
	return n
}

func (p *BTH) putBTH(b []byte) {
	_ = b[11]
	flags := p.Pad&3<<4 | p.TVer&0x0F
	if p.Solicited {
		flags |= 0x80
	}
	if p.MigReq {
		flags |= 0x40
	}
	b[0] = byte(p.Opcode)
	b[1] = flags
	binary.BigEndian.PutUint16(b[2:], uint16(p.PKey))
	w := uint32(p.DestQP&QPNMask) | uint32(p.Resv6&0x3F)<<24
	if p.FECN {
		w |= 1 << 31
	}
	if p.BECN {
		w |= 1 << 30
	}
	binary.BigEndian.PutUint32(b[4:], w)
	w = uint32(p.PSN)&PSNMask | uint32(p.Resv7&0x7F)<<24
	if p.AckReq {
		w |= 1 << 31
	}
	binary.BigEndian.PutUint32(b[8:], w)
}

func (p *Packet) putExtended(h Headers, x []byte) {
	be := binary.BigEndian
	if h&HasDETH != 0 {
		be.PutUint32(x, uint32(p.DETH.QKey))
		be.PutUint32(x[4:], uint32(p.DETH.Resv8)<<24|uint32(p.DETH.SrcQP&QPNMask))
		x = x[DETHBytes:]
	}
	if h&HasFETH != 0 {
		be.PutUint32(x, uint32(p.FETH))
		x = x[FETHBytes:]
	}
	if h&HasRETH != 0 {
		be.PutUint64(x, p.RETH.VA)
		be.PutUint32(x[8:], uint32(p.RETH.RKey))
		be.PutUint32(x[12:], p.RETH.Len)
		x = x[RETHBytes:]
	}
	if h&HasAtomicETH != 0 {
		be.PutUint64(x, p.Atomic.VA)
		be.PutUint32(x[8:], uint32(p.Atomic.RKey))
		be.PutUint64(x[12:], p.Atomic.SwapAdd)
		be.PutUint64(x[20:], p.Atomic.Compare)
		x = x[AtomicETHBytes:]
	}
	if h&HasAETH != 0 {
		be.PutUint32(x, uint32(p.AETH.Syndrome)<<24|uint32(p.AETH.MSN)&PSNMask)
		x = x[AETHBytes:]
	}
	if h&HasAtomicAckETH != 0 {
		be.PutUint64(x, p.AtomicAck)
		x = x[AtomicAckETHBytes:]
	}
	if h&HasImmDt != 0 {
		be.PutUint32(x, p.ImmDt)
		x = x[ImmDtBytes:]
	}
	if h&HasIETH != 0 {
		be.PutUint32(x, uint32(p.IETH))
		x = x[IETHBytes:]
	}
	if h&HasCNPReserved != 0 {
		copy(x[:CNPReservedBytes], p.CNPReserved[:])
	}
}

// Append appends the whole UDP payload of the packet to b and returns the extended slice: headers,
// Payload, p.Pad bytes of zeros, and the ICRC by c and the IPv4 identification id (ignored for
// IPv6). It is the simple way, for tools, tests and rare packets; the data path puts headers,
// payload and ICRC in separate buffers. An unknown opcode appends nothing.
func (p *Packet) Append(b []byte, c *ICRC, id uint16) []byte {
	if !p.Opcode.Known() {
		return b
	}
	var head [MaxHeaderBytes]byte
	start := len(b)
	b = append(b, head[:p.PutHeaders(head[:])]...)
	b = append(b, p.Payload...)
	b = append(b, zeros[:p.Pad&3]...)
	return binary.LittleEndian.AppendUint32(b, c.Checksum(id, b[start:]))
}

// zeros is the source of padding.
var zeros [3]byte

// PadFor returns the padding after a payload of n bytes: up to the next multiple of 4 (IBTA 9.2.3).
func PadFor(n int) int { return -n & 3 }
