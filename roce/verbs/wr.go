package verbs

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// SGE is an element of a scatter/gather list (ibv_sge): a piece of a region that a work
// request reads or fills. [MR.SGE] makes one.
type SGE struct {
	Addr   uint64  // of the first byte, in the terms of [MR.Addr]
	Length uint32  // bytes
	LKey   ib.LKey // of the region; 0 is none
}

// SendWR is a send work request (ibv_send_wr). Which fields count depends on Opcode and on the
// type of the queue pair; the others are ignored.
//
//	opcode                  fields, besides ID, Opcode and Flags
//	WRSend                  payload
//	WRSendImm               payload, Imm
//	WRSendInv               payload, InvalidateKey
//	WRWrite                 payload, RemoteAddr, RKey
//	WRWriteImm              payload, RemoteAddr, RKey, Imm
//	WRRead                  SGList (where the data goes), RemoteAddr, RKey
//	WRFetchAdd              SGList (8 bytes for the old value), RemoteAddr, RKey, CompareAdd
//	WRCompareSwap           SGList (8 bytes for the old value), RemoteAddr, RKey, CompareAdd, Swap
//	WRAtomicWrite           payload of 8 bytes, or AtomicWriteVal; RemoteAddr, RKey
//	WRFlush                 RemoteAddr, RKey, FlushLength, FlushType
//	WRLocalInv              InvalidateKey
//	WRBindMW                Bind
//	on a UD queue pair      AH, RemoteQPN and RemoteQKey, too
//
// The payload is Inline, or what SGList names. RC has all opcodes; UC those of SEND
// (without WRSendInv) and WRITE, and the local ones; UD WRSend and WRSendImm.
//
// The request, SGList included, is copied when it is posted. The memory that SGList names
// belongs to the device until the request completes.
type SendWR struct {
	ID     uint64    // returned in [WC].ID (wr_id)
	Opcode WROpcode  // what to do
	Flags  SendFlags // how; 0 makes no completion on success, unless QPInitAttr.SigAll
	SGList []SGE     // at most QPCaps.MaxSendSGE elements

	// Inline, if not nil and Flags has SendInline, is the payload itself, up to QPCaps.MaxInline
	// bytes; SGList is ignored then. It is copied when the request is posted.
	Inline []byte

	Imm           uint32  // delivered to the peer in WC.Imm; a number, whatever the byte order of the two (imm_data)
	InvalidateKey ib.RKey // WRSendInv: a key of the peer; WRLocalInv: one of this side (invalidate_rkey)

	RemoteAddr uint64  // of the first byte in the peer's memory, RemoteMemory.Addr (remote_addr)
	RKey       ib.RKey // to the peer's memory, RemoteMemory.RKey (rkey)

	CompareAdd uint64 // WRFetchAdd: what to add; WRCompareSwap: what the memory must hold (compare_add)
	Swap       uint64 // WRCompareSwap: the new value (swap)

	FlushLength uint32  // bytes, if FlushType has ib.FlushRange
	FlushType   ib.FETH // ib.FlushGlobalVisibility or ib.FlushPersistence or both, with ib.FlushRange or ib.FlushMR

	AH         *AH     // the path to the peer, of the domain of the queue pair (wr.ud.ah)
	RemoteQPN  ib.QPN  // of the peer; ib.QPNMulticast for a group; at 0 nobody receives (remote_qpn)
	RemoteQKey ib.QKey // of the peer; if its top bit is set, this queue pair's own is sent instead (remote_qkey)

	Bind BindMW // what WRBindMW binds; see also [QP.BindMW]

	AtomicWriteVal [8]byte // WRAtomicWrite without SGList: the value, in the byte order of memory
}

// BindMW says what a WRBindMW work request binds (bind_mw of ibv_send_wr): a type 2 window to
// Length bytes at Addr. [QP.BindMW] fills it in.
type BindMW struct {
	MW      *MW
	MR      *MR     // registered with MWBind; of the same domain
	NewRKey ib.RKey // the key that the window gets: [MW.NextRKey], or another with the same upper 24 bits
	Addr    uint64  // in the terms of [MR.Addr]
	Length  uint64  // bytes
	Access  Access  // what peers may do: remote rights, and ZeroBased
}

// RecvWR is a receive work request (ibv_recv_wr): the memory for a message. It is copied, SGList
// included, when it is posted; the memory belongs to the device until the request completes.
type RecvWR struct {
	ID     uint64 // returned in [WC].ID (wr_id)
	SGList []SGE  // at most QPCaps.MaxRecvSGE elements; on UD the first 40 bytes are for the GRH (see WCWithGRH)
}

// WROpcode is the operation of a [SendWR] (ibv_wr_opcode).
type WROpcode = transport.WROpcode

// The operations of send work requests.
const (
	WRSend    WROpcode = transport.WRSend    // SEND: a message for a receive of the peer
	WRSendImm WROpcode = transport.WRSendImm // SEND with an immediate value
	WRSendInv WROpcode = transport.WRSendInv // SEND that invalidates a key of the peer
	WRWrite   WROpcode = transport.WRWrite   // RDMA WRITE; the peer's program is not told
	// RDMA WRITE with an immediate value, which consumes a receive of the peer.
	WRWriteImm    WROpcode = transport.WRWriteImm
	WRRead        WROpcode = transport.WRRead        // RDMA READ
	WRCompareSwap WROpcode = transport.WRCompareSwap // atomic compare and swap of 8 aligned bytes
	WRFetchAdd    WROpcode = transport.WRFetchAdd    // atomic fetch and add of 8 aligned bytes
	WRAtomicWrite WROpcode = transport.WRAtomicWrite // atomic WRITE of 8 aligned bytes
	WRFlush       WROpcode = transport.WRFlush       // FLUSH of memory that was written before
	WRLocalInv    WROpcode = transport.WRLocalInv    // invalidates a key of this side
	WRBindMW      WROpcode = transport.WRBindMW      // binds a type 2 memory window
)

// SendFlags modify a [SendWR] (ibv_send_flags, same bit values).
type SendFlags = transport.SendFlags

// The flags of send work requests.
const (
	SendFence     SendFlags = transport.SendFence     // begin after all earlier READs and atomics have completed
	SendSignaled  SendFlags = transport.SendSignaled  // make a completion on success; failures always make one
	SendSolicited SendFlags = transport.SendSolicited // the peer's completion is solicited, see [CQ.RequestNotify]
	// Copy the payload when posting: the memory may be used again at once.
	SendInline SendFlags = transport.SendInline
)
