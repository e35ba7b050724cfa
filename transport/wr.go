package transport

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// SGE is a scatter/gather element: Length bytes at Addr in the region LKey.
type SGE = mem.SGE

// WROpcode is the operation of a send work request (ibv_wr_opcode).
type WROpcode uint8

// The operations.
const (
	WRSend WROpcode = iota
	WRSendImm
	WRSendInv
	WRWrite
	WRWriteImm
	WRRead
	WRCompareSwap
	WRFetchAdd
	WRAtomicWrite
	WRFlush
	WRLocalInv
	WRBindMW
	numWROpcodes
)

var wrNames = [numWROpcodes]string{
	"SEND", "SEND_WITH_IMM", "SEND_WITH_INV", "RDMA_WRITE", "RDMA_WRITE_WITH_IMM",
	"RDMA_READ", "ATOMIC_CMP_AND_SWP", "ATOMIC_FETCH_AND_ADD", "ATOMIC_WRITE",
	"FLUSH", "LOCAL_INV", "BIND_MW",
}

func (o WROpcode) String() string {
	if o < numWROpcodes {
		return wrNames[o]
	}
	return fmt.Sprintf("WROpcode(%d)", uint8(o))
}

// SendFlags modify a send work request (ibv_send_flags, same bit values).
type SendFlags uint8

// The flags.
const (
	SendFence     SendFlags = 1 << 0 // wait for earlier READs and atomics
	SendSignaled  SendFlags = 1 << 1 // make a completion on success
	SendSolicited SendFlags = 1 << 2 // ask for a solicited event at the peer
	SendInline    SendFlags = 1 << 3 // copy the payload when posting
	SendPatient   SendFlags = 1 << 7 // no flag of ibv_send_flags: nobody waits for the completion yet; see QP.Ask
)

// SendWR is a send work request. Opcode and the QP's type decide which fields matter; the others
// are ignored. Posting copies the request, including SGList.
type SendWR struct {
	ID     uint64
	Opcode WROpcode
	Flags  SendFlags
	SGList []SGE
	// Inline, if not nil and SendInline is set, is the payload; SGList is then ignored. Without
	// Inline, SendInline copies the memory that SGList names when the request is posted, so that
	// the caller may reuse it at once.
	Inline []byte

	Imm           uint32  // SEND_WITH_IMM, RDMA_WRITE_WITH_IMM
	InvalidateKey ib.RKey // SEND_WITH_INV (the peer's key), LOCAL_INV (our rkey)

	RemoteAddr uint64  // WRITE, READ, atomics, ATOMIC_WRITE, FLUSH
	RKey       ib.RKey // same

	// CompareAdd is the value to compare with, or the addend of FETCH_ADD.
	CompareAdd uint64
	Swap       uint64

	FlushLength    uint32  // FLUSH: bytes, with FlushRange
	FlushType      ib.FETH // FLUSH: placement type bits and selectivity
	AH             *AH     // UD
	RemoteQPN      ib.QPN  // UD
	RemoteQKey     ib.QKey // UD; with the top bit set the QP's own Q_Key is sent
	Bind           BindMW  // BIND_MW
	AtomicWriteVal [8]byte // ATOMIC_WRITE when SGList is empty
}

// BindMW is the argument of a BIND_MW work request: it binds the type 2 window MW to Length bytes
// at Addr of Region. NewRKey is the window's key with a new low byte, as ibv_inc_rkey makes it.
type BindMW struct {
	MW      *mem.Window
	Region  *mem.Region
	NewRKey ib.RKey
	Addr    uint64
	Length  uint64
	Access  mem.Access
}

// RecvWR is a receive work request.
type RecvWR struct {
	ID     uint64
	SGList []SGE
}
