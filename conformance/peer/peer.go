package peer

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// Peer is one implementation at one address.
type Peer interface {
	// Name says what it is, such as "rxe 6.12".
	Name() string
	// Link names the way to the wire, such as "rxe" or "udp".
	Link() string
	Caps() Caps
	// Profile says whose published choices are expected of it where the specification leaves
	// some, or where an implementation is known to deviate.
	Profile() Profile
	// Addr is the address of the family asked for; the zero Addr if it has none.
	Addr(f Family) netip.Addr
	// PortName is the name of its port on the lab's wire.
	PortName() string
	// Open starts a session: objects of its own that go with it.
	Open(ctx context.Context) (Session, error)
}

// Caps says what a peer has beyond the operations that all have.
type Caps struct {
	AtomicWrite bool
	Flush       bool
	MaxMTU      int // the largest path MTU that its port carries, bytes
}

// Session makes objects. Close frees them all.
type Session interface {
	// MR makes a region of n bytes (zeros) that Access describes.
	MR(n int, access Access) (MR, error)
	QP(cfg QPConfig) (QP, error)
	// Counters returns the device's counters under rxe's names.
	Counters() (map[string]uint64, error)
	Close() error
}

// MR is registered memory. Offsets count from its first byte.
type MR interface {
	Addr() uint64 // of the first byte, as work requests name it
	Len() int
	LKey() uint32
	RKey() uint32
	// Fill writes bytes base.. of the pattern of seed to [off, off+n).
	Fill(off, n int, seed uint64, base int) error
	// Check returns the offset within [off, off+n) of the first byte that differs from
	// the pattern, or -1.
	Check(off, n int, seed uint64, base int) (int, error)
	Write(off int, b []byte) error
	Read(off, n int) ([]byte, error)
	// Dereg unregisters the region and frees it.
	Dereg() error
}

// QP is a queue pair with two completion queues of its own.
type QP interface {
	QPN() uint32
	// Connect brings the QP to RTS.
	Connect(c Conn) error
	// ConnectTo is Connect up to a state: INIT, RTR or RTS.
	ConnectTo(c Conn, to State) error
	// SetState asks for a state that needs no attributes: RESET, SQD, ERR, or RTS from SQD.
	SetState(s State) error
	State() (State, error)
	PostSend(wr SendWR) error
	PostRecv(wr RecvWR) error
	// PollSend and PollRecv wait until there are n completions or the time is up, and
	// return what there is, at most n.
	PollSend(n int, wait time.Duration) ([]WC, error)
	PollRecv(n int, wait time.Duration) ([]WC, error)
	// BindWindow makes a type 2 memory window over part of mr, waits for the bind, and
	// returns the window's key.
	BindWindow(mr MR, off, n int, access Access) (rkey uint32, err error)
	Close() error
}

// Family is an IP version.
type Family string

// The families.
const (
	V4 Family = "ipv4"
	V6 Family = "ipv6"
)

// Type is the transport service.
type Type string

// The services.
const (
	RC Type = "rc"
	UC Type = "uc"
	UD Type = "ud"
)

// State is ibv_qp_state.
type State int

// The states.
const (
	StateReset State = iota
	StateInit
	StateRTR
	StateRTS
	StateSQD
	StateSQE
	StateErr
)

// Access is ibv_access_flags.
type Access uint32

// The flags. AccessAll is what remote operations of all kinds need.
const (
	AccessLocalWrite      Access = 1 << 0
	AccessRemoteWrite     Access = 1 << 1
	AccessRemoteRead      Access = 1 << 2
	AccessRemoteAtomic    Access = 1 << 3
	AccessMWBind          Access = 1 << 4
	AccessFlushGlobal     Access = 1 << 8
	AccessFlushPersistent Access = 1 << 9

	AccessAll   = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic
	AccessFlush = AccessFlushGlobal | AccessFlushPersistent
)

// QPConfig describes a QP. Zero sizes are replaced by small defaults.
type QPConfig struct {
	Type      Type
	Access    Access // remote operations that the QP allows
	MaxSendWR int
	MaxRecvWR int
	MaxSGE    int
	QKey      uint32 // UD
}

// Conn is how a QP is connected.
type Conn struct {
	Family    Family
	Remote    netip.Addr
	RemoteQPN uint32
	MTU       int // bytes
	SQPSN     uint32
	RQPSN     uint32
	FlowLabel uint32 // of the address vector

	Timeout         int // code: 4.096 us * 2^Timeout
	RetryCnt        int
	RNRRetry        int
	MinRNRTimer     int // code
	MaxRdAtomic     int
	MaxDestRdAtomic int
}

// Opcode is ibv_wr_opcode.
type Opcode int

// The opcodes.
const (
	OpWrite       Opcode = 0
	OpWriteImm    Opcode = 1
	OpSend        Opcode = 2
	OpSendImm     Opcode = 3
	OpRead        Opcode = 4
	OpCmpSwap     Opcode = 5
	OpFetchAdd    Opcode = 6
	OpLocalInv    Opcode = 7
	OpBindMW      Opcode = 8
	OpSendInv     Opcode = 9
	OpFlush       Opcode = 14
	OpAtomicWrite Opcode = 15
)

var opNames = map[Opcode]string{
	OpWrite: "WRITE", OpWriteImm: "WRITE_IMM", OpSend: "SEND", OpSendImm: "SEND_IMM", OpRead: "READ",
	OpCmpSwap: "CMP_SWAP", OpFetchAdd: "FETCH_ADD", OpLocalInv: "LOCAL_INV", OpBindMW: "BIND_MW",
	OpSendInv: "SEND_INV", OpFlush: "FLUSH", OpAtomicWrite: "ATOMIC_WRITE",
}

func (o Opcode) String() string {
	if s, ok := opNames[o]; ok {
		return s
	}
	return fmt.Sprintf("Opcode(%d)", int(o))
}

// Flags of send work requests, as ibv_send_flags.
const (
	FlagFence     = 1 << 0
	FlagSignaled  = 1 << 1
	FlagSolicited = 1 << 2
	FlagInline    = 1 << 3
)

// SGE is a piece of registered memory. With Raw set the key and address are sent as
// they are, right or wrong.
type SGE struct {
	MR   MR
	Off  int
	Len  int
	Raw  bool
	Addr uint64
	LKey uint32
}

// SendWR is a send work request.
type SendWR struct {
	ID    uint64
	Op    Opcode
	Flags int // FlagSignaled is usual
	SGL   []SGE

	RemoteAddr uint64
	RKey       uint32
	Imm        uint32
	InvKey     uint32
	CompareAdd uint64
	Swap       uint64
	Value      [8]byte // ATOMIC_WRITE
	FlushLen   int
	FlushPLT   int // 1 global visibility, 2 persistence
	FlushSEL   int // 0 range, 1 whole region

	// UD
	Family     Family
	Remote     netip.Addr
	RemoteQPN  uint32
	RemoteQKey uint32
}

// RecvWR is a receive work request.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// Status is ibv_wc_status.
type Status int

// The statuses that checks expect.
const (
	Success        Status = 0
	LocLenErr      Status = 1
	LocQPOpErr     Status = 2
	LocProtErr     Status = 4
	WRFlushErr     Status = 5
	MWBindErr      Status = 6
	BadRespErr     Status = 7
	LocAccessErr   Status = 8
	RemInvReqErr   Status = 9
	RemAccessErr   Status = 10
	RemOpErr       Status = 11
	RetryExcErr    Status = 12
	RNRRetryExcErr Status = 13
	FatalErr       Status = 19
)

var statusNames = map[Status]string{
	Success: "SUCCESS", LocLenErr: "LOC_LEN_ERR", LocQPOpErr: "LOC_QP_OP_ERR", LocProtErr: "LOC_PROT_ERR",
	WRFlushErr: "WR_FLUSH_ERR", MWBindErr: "MW_BIND_ERR", BadRespErr: "BAD_RESP_ERR",
	LocAccessErr: "LOC_ACCESS_ERR", RemInvReqErr: "REM_INV_REQ_ERR", RemAccessErr: "REM_ACCESS_ERR",
	RemOpErr: "REM_OP_ERR", RetryExcErr: "RETRY_EXC_ERR", RNRRetryExcErr: "RNR_RETRY_EXC_ERR", FatalErr: "FATAL_ERR",
}

func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return fmt.Sprintf("Status(%d)", int(s))
}

// Opcodes of completions, as ibv_wc_opcode.
const (
	WCSend        = 0
	WCWrite       = 1
	WCRead        = 2
	WCCmpSwap     = 3
	WCFetchAdd    = 4
	WCRecv        = 128
	WCRecvWithImm = 129
)

// Flags of completions, as ibv_wc_flags.
const (
	WCFlagGRH = 1 << 0
	WCFlagImm = 1 << 1
	WCFlagInv = 1 << 3
)

// WC is a completion.
type WC struct {
	ID      uint64
	Status  Status
	Opcode  int
	ByteLen int
	QPN     uint32
	SrcQP   uint32
	Flags   int
	Imm     uint32 // or the invalidated key with WCFlagInv
}

func (w WC) String() string {
	return fmt.Sprintf("{id %d %v opcode %d len %d flags %#x imm %#x}", w.ID, w.Status, w.Opcode,
		w.ByteLen, w.Flags, w.Imm)
}
