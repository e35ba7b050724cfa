package ib

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

// Resv7Selective is the value of Resv7 that announces selective repeat, which is not in the
// specification: in a request that is sent again, and in every answer to a requester that has
// announced it. Other implementations send 0, and ignore it.
const Resv7Selective = 0x40

// BTH is the base transport header, on every packet (IBTA 9.2).
type BTH struct {
	Opcode    Opcode
	Pad       uint8 // bytes of padding after the payload, 0 to 3
	TVer      uint8 // transport header version, must be 0
	Solicited bool  // SE: the message asks for a solicited event
	MigReq    bool  // M: rxe sends 0, ConnectX sends 1; neither refuses the other
	FECN      bool  // F; masked in the ICRC together with BECN and Resv6
	BECN      bool  // B
	AckReq    bool  // A: asks the responder to acknowledge
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

// Packet is one decoded RoCE v2 packet: the BTH, and those extended headers that its opcode
// carries. Fields of other headers keep their old values, so a Packet can be reused without being
// cleared.
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
	// CNPReserved is the reserved field of a CNP. Senders leave it zero, receivers ignore it; it is
	// here so that nothing is lost between Decode and PutHeaders.
	CNPReserved [CNPReservedBytes]byte

	// Payload aliases the decoded buffer; padding and ICRC are excluded, even from its capacity.
	Payload []byte
	// HeaderLen is the length of BTH and extended headers in the decoded buffer, in bytes.
	HeaderLen int
}
