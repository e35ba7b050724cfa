package ib

// Bounds of the wire format, in bytes unless the name says otherwise.
const (
	// MaxMTUBytes is the payload of the largest packet.
	MaxMTUBytes = 4096

	// MaxHeaderBytes is the longest run of BTH and extended headers: CMP & SWAP.
	MaxHeaderBytes = BTHBytes + AtomicETHBytes

	// MaxPacketBytes bounds a UDP payload: the longest headers of an opcode
	// that carries payload (WRITE ONLY IMM, 32) with 4096 bytes and the ICRC.
	MaxPacketBytes = BTHBytes + RETHBytes + ImmDtBytes + MaxMTUBytes + ICRCBytes

	// MaxPSNSpan is the largest distance, in packets, at which two PSNs can still be ordered: half
	// of the number space. A requester must keep fewer than this many packets outstanding.
	MaxPSNSpan = 1 << 23

	// AtomicBytes is the operand of CMP & SWAP and FETCH & ADD and the payload of ATOMIC WRITE. The
	// first two carry big-endian numbers in headers; the payload of ATOMIC WRITE has the byte order
	// of memory.
	AtomicBytes = 8
)
