package ib

import "encoding/binary"

// Lengths of the transport headers, in bytes.
const (
	BTHBytes          = 12
	DETHBytes         = 8
	FETHBytes         = 4
	RETHBytes         = 16
	AtomicETHBytes    = 28
	AETHBytes         = 4
	AtomicAckETHBytes = 8
	ImmDtBytes        = 4
	IETHBytes         = 4
	ICRCBytes         = 4
	CNPReservedBytes  = 16
)

// BTH is the base transport header, on every packet (IBTA 9.2).
type BTH struct {
	Opcode    Opcode
	Pad       uint8 // bytes of padding after the payload, 0 to 3
	TVer      uint8 // transport header version, must be 0
	Solicited bool  // SE: the message asks for a solicited event
	MigReq    bool  // M: rxe sends 0, ConnectX sends 1; neither refuses the other
	FECN      bool  // F; masked in the ICRC together with BECN and Resv6
	BECN      bool  // B
	AckReq    bool  // A: the responder is asked to acknowledge
	Resv6     uint8 // low 6 bits of byte 4
	Resv7     uint8 // low 7 bits of byte 8
	PKey      PKey
	DestQP    QPN
	PSN       PSN
}

// RETH is the RDMA extended transport header.
type RETH struct {
	VA   uint64
	RKey RKey
	Len  uint32 // DMA length of the whole message, in bytes
}

// AtomicETH is the header of CMP & SWAP and FETCH & ADD. FETCH & ADD carries
// its addend in SwapAdd and ignores Compare.
type AtomicETH struct {
	VA      uint64
	RKey    RKey
	SwapAdd uint64
	Compare uint64
}

// DETH is the datagram extended transport header.
type DETH struct {
	QKey  QKey
	Resv8 uint8
	SrcQP QPN
}

// AETH is the acknowledge extended transport header.
type AETH struct {
	Syndrome Syndrome
	MSN      MSN
}

// FETH is the flush extended transport header (annex A19).
type FETH uint32

// Placement and selectivity of a FLUSH.
const (
	FlushGlobalVisibility FETH = 1 << 0 // placement type
	FlushPersistence      FETH = 1 << 1 // placement type
	FlushRange            FETH = 0 << 4 // selectivity: the range in the RETH
	FlushMR               FETH = 1 << 4 // selectivity: the whole memory region
)

// Packet is one decoded RoCE v2 packet: the BTH, and those extended headers
// that its opcode carries. Fields of other headers keep whatever value they
// had, so a Packet can be reused without being cleared.
type Packet struct {
	BTH
	DETH      DETH
	FETH      FETH
	RETH      RETH
	Atomic    AtomicETH
	AETH      AETH
	AtomicAck uint64 // original value, AtomicAckETH
	ImmDt     uint32
	IETH      RKey // key to invalidate
	// CNPReserved is the reserved field of a CNP. Senders leave it zero,
	// receivers do not look at it; it is here so that nothing is lost between
	// Decode and PutHeaders.
	CNPReserved [CNPReservedBytes]byte

	// Payload aliases the decoded buffer; padding and ICRC are excluded, also
	// from its capacity.
	Payload []byte
	// HeaderLen is the length of BTH and extended headers in the decoded
	// buffer, in bytes.
	HeaderLen int
}

// DecodeError says why bytes are not a packet. It is a small integer so that
// the data path can count it without allocating.
type DecodeError uint8

// The reasons of a refusal, in the order in which they are checked.
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

// Decode parses b, the UDP payload of one packet from BTH through ICRC. It
// returns DecodeOK, or the first reason to drop the packet. The ICRC is not
// verified (see [ICRC]). CNP packets with a short or missing reserved field
// are refused as any other truncation.
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

// decodeExtended reads the headers of h from x, whose length the opcode table
// gave.
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

// PutHeaders writes the BTH and the extended headers of p.Opcode into b and
// returns their length. It panics if b is shorter than that; a buffer of
// [MaxHeaderBytes] is always enough. An unknown opcode writes nothing and
// returns 0.
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

// Append appends the whole UDP payload of the packet to b and returns the
// extended slice: headers, Payload, p.Pad bytes of zeros, and the ICRC that c
// and the IPv4 identification id (ignored for IPv6) give. It is the simple
// way, for tools, tests and rare packets; the data path puts headers, payload
// and ICRC in separate buffers. An unknown opcode appends nothing.
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

// zeros is where padding comes from.
var zeros [3]byte

// PadFor returns the padding after a payload of n bytes: up to the next
// multiple of 4 (IBTA 9.2.3).
func PadFor(n int) int { return -n & 3 }
