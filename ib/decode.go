package ib

import "encoding/binary"

// DecodeError says why bytes are not a packet. It is a small integer so that
// the data path can count it without allocating.
type DecodeError uint8

// The reasons to refuse a packet, in the order in which they are checked.
const (
	DecodeOK            DecodeError = iota
	ErrShortBTH                     // fewer than 12 bytes
	ErrUnknownOpcode                // not in the opcode table
	ErrShortHeaders                 // headers, padding and ICRC do not fit
	ErrTransportVersion             // TVer is not 0
)

var decodeErrorText = [...]string{
	"ok", "packet shorter than a BTH", "unknown opcode",
	"packet shorter than its headers, padding and ICRC",
	"transport header version is not 0",
}

func (e DecodeError) Error() string {
	if int(e) < len(decodeErrorText) {
		return "ib: " + decodeErrorText[e]
	}
	return "ib: decode error"
}

// Decode parses b, the UDP payload of one packet from BTH through ICRC. It returns DecodeOK, or the
// first reason to drop the packet. It does not verify the ICRC (see [ICRC]). CNP packets with a
// short or missing reserved field are refused like any other truncation.
func (p *Packet) Decode(b []byte) DecodeError {
	if len(b) < BTHBytes {
		return ErrShortBTH
	}
	_ = b[11]
	p.Opcode = Opcode(b[0])
	info := &opcodes[b[0]]
	n := int(info.HeaderLen)
	if n == 0 {
		return ErrUnknownOpcode
	}
	flags := b[1]
	p.Solicited = flags&0x80 != 0
	p.MigReq = flags&0x40 != 0
	p.Pad = flags >> 4 & 3
	p.TVer = flags & 0x0F
	p.PKey = PKey(binary.BigEndian.Uint16(b[2:]))
	w := binary.BigEndian.Uint32(b[4:])
	p.FECN = w&(1<<31) != 0
	p.BECN = w&(1<<30) != 0
	p.Resv6 = uint8(w>>24) & 0x3F
	p.DestQP = QPN(w) & QPNMask
	w = binary.BigEndian.Uint32(b[8:])
	p.AckReq = w&(1<<31) != 0
	p.Resv7 = uint8(w>>24) & 0x7F
	p.PSN = PSN(w & PSNMask)

	end := len(b) - ICRCBytes - int(p.Pad)
	if end < n {
		return ErrShortHeaders
	}
	if p.TVer != 0 {
		return ErrTransportVersion
	}
	if info.Headers != 0 {
		p.decodeExtended(info.Headers, b[BTHBytes:n])
	}
	p.HeaderLen = n
	p.Payload = b[n:end:end]
	return DecodeOK
}

// DecodeNext parses b as Decode does, but only the parts in which packets of a run differ: PSN,
// AckReq, extended headers and payload. b must have the length and the first 8 bytes of the packet
// in p.
func (p *Packet) DecodeNext(b []byte) {
	_ = b[11]
	w := binary.BigEndian.Uint32(b[8:])
	p.AckReq = w&(1<<31) != 0
	p.Resv7 = uint8(w>>24) & 0x7F
	p.PSN = PSN(w & PSNMask)
	if h := opcodes[p.Opcode].Headers; h != 0 {
		p.decodeExtended(h, b[BTHBytes:p.HeaderLen])
	}
	end := p.HeaderLen + len(p.Payload)
	p.Payload = b[p.HeaderLen:end:end]
}

// decodeExtended reads the headers of h from x, whose length comes from the opcode table.
func (p *Packet) decodeExtended(h Headers, x []byte) {
	be := binary.BigEndian
	if h&HasDETH != 0 {
		p.DETH.QKey = QKey(be.Uint32(x))
		w := be.Uint32(x[4:])
		p.DETH.Resv8 = uint8(w >> 24)
		p.DETH.SrcQP = QPN(w) & QPNMask
		x = x[DETHBytes:]
	}
	if h&HasFETH != 0 {
		p.FETH = FETH(be.Uint32(x))
		x = x[FETHBytes:]
	}
	if h&HasRETH != 0 {
		p.RETH = RETH{VA: be.Uint64(x), RKey: RKey(be.Uint32(x[8:])), Len: be.Uint32(x[12:])}
		x = x[RETHBytes:]
	}
	if h&HasAtomicETH != 0 {
		p.Atomic = AtomicETH{
			VA: be.Uint64(x), RKey: RKey(be.Uint32(x[8:])),
			SwapAdd: be.Uint64(x[12:]), Compare: be.Uint64(x[20:]),
		}
		x = x[AtomicETHBytes:]
	}
	if h&HasAETH != 0 {
		w := be.Uint32(x)
		p.AETH = AETH{Syndrome: Syndrome(w >> 24), MSN: MSN(w & PSNMask)}
		x = x[AETHBytes:]
	}
	if h&HasAtomicAckETH != 0 {
		p.AtomicAck = be.Uint64(x)
		x = x[AtomicAckETHBytes:]
	}
	if h&HasImmDt != 0 {
		p.ImmDt = be.Uint32(x)
		x = x[ImmDtBytes:]
	}
	if h&HasIETH != 0 {
		p.IETH = RKey(be.Uint32(x))
	}
	if h&HasCNPReserved != 0 {
		p.CNPReserved = [CNPReservedBytes]byte(x)
	}
}
