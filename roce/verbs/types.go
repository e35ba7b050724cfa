package verbs

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport"
)

// Types of the engine that are part of this API.
type (
	WC            = transport.WC
	WCStatus      = transport.WCStatus
	WCOpcode      = transport.WCOpcode
	WCFlags       = transport.WCFlags
	SendWR        = transport.SendWR
	RecvWR        = transport.RecvWR
	SGE           = transport.SGE
	WROpcode      = transport.WROpcode
	SendFlags     = transport.SendFlags
	BindMW        = transport.BindMW
	QPAttr        = transport.QPAttr
	QPCaps        = transport.QPCaps
	QPState       = transport.QPState
	AttrMask      = transport.AttrMask
	AddressVector = transport.AddressVector
	SRQAttr       = transport.SRQAttr
	Counters      = transport.Counters
	EventType     = transport.EventType
	Access        = mem.Access
	WindowType    = mem.WindowType
	GID           = ib.GID
)

// Service types of queue pairs.
const (
	RC = ib.RC
	UC = ib.UC
	UD = ib.UD
)

// Access flags of memory regions, memory windows and queue pairs.
const (
	LocalWrite      = mem.LocalWrite
	RemoteWrite     = mem.RemoteWrite
	RemoteRead      = mem.RemoteRead
	RemoteAtomic    = mem.RemoteAtomic
	MWBind          = mem.MWBind
	ZeroBased       = mem.ZeroBased
	FlushGlobal     = mem.FlushGlobal
	FlushPersistent = mem.FlushPersistent

	// AccessAll is everything that ordinary memory can grant.
	AccessAll = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | MWBind | FlushGlobal
)

// Types of memory windows.
const (
	WindowType1  = mem.Type1
	WindowType2A = mem.Type2A
	WindowType2B = mem.Type2B
)

// Operations of send work requests.
const (
	WRSend        = transport.WRSend
	WRSendImm     = transport.WRSendImm
	WRSendInv     = transport.WRSendInv
	WRWrite       = transport.WRWrite
	WRWriteImm    = transport.WRWriteImm
	WRRead        = transport.WRRead
	WRCompareSwap = transport.WRCompareSwap
	WRFetchAdd    = transport.WRFetchAdd
	WRAtomicWrite = transport.WRAtomicWrite
	WRFlush       = transport.WRFlush
	WRLocalInv    = transport.WRLocalInv
	WRBindMW      = transport.WRBindMW
)

// Flags of send work requests.
const (
	SendFence     = transport.SendFence
	SendSignaled  = transport.SendSignaled
	SendSolicited = transport.SendSolicited
	SendInline    = transport.SendInline
)

// Statuses of work completions that programs usually look for; the others are
// in package transport.
const (
	WCSuccess         = transport.WCSuccess
	WCLocalLenErr     = transport.WCLocalLenErr
	WCLocalQPOpErr    = transport.WCLocalQPOpErr
	WCLocalProtErr    = transport.WCLocalProtErr
	WCFlushErr        = transport.WCFlushErr
	WCMWBindErr       = transport.WCMWBindErr
	WCRemoteInvReqErr = transport.WCRemoteInvReqErr
	WCRemoteAccessErr = transport.WCRemoteAccessErr
	WCRemoteOpErr     = transport.WCRemoteOpErr
	WCRetryExcErr     = transport.WCRetryExcErr
	WCRNRRetryExcErr  = transport.WCRNRRetryExcErr
)

// Opcodes and flags of work completions.
const (
	WCSend         = transport.WCSend
	WCWrite        = transport.WCWrite
	WCRead         = transport.WCRead
	WCCompareSwap  = transport.WCCompareSwap
	WCFetchAdd     = transport.WCFetchAdd
	WCBindMW       = transport.WCBindMW
	WCLocalInv     = transport.WCLocalInv
	WCFlush        = transport.WCFlush
	WCAtomicWrite  = transport.WCAtomicWrite
	WCRecv         = transport.WCRecv
	WCRecvWriteImm = transport.WCRecvWriteImm

	WCWithGRH = transport.WCWithGRH
	WCWithImm = transport.WCWithImm
	WCWithInv = transport.WCWithInv
)

// States of queue pairs.
const (
	StateReset = transport.StateReset
	StateInit  = transport.StateInit
	StateRTR   = transport.StateRTR
	StateRTS   = transport.StateRTS
	StateSQD   = transport.StateSQD
	StateSQE   = transport.StateSQE
	StateErr   = transport.StateErr
)

// Attributes of queue pairs, for the masks of [QP.Modify].
const (
	AttrState           = transport.AttrState
	AttrCurState        = transport.AttrCurState
	AttrEnSQDNotify     = transport.AttrEnSQDNotify
	AttrAccess          = transport.AttrAccess
	AttrPKeyIndex       = transport.AttrPKeyIndex
	AttrPort            = transport.AttrPort
	AttrQKey            = transport.AttrQKey
	AttrAV              = transport.AttrAV
	AttrPathMTU         = transport.AttrPathMTU
	AttrTimeout         = transport.AttrTimeout
	AttrRetryCnt        = transport.AttrRetryCnt
	AttrRNRRetry        = transport.AttrRNRRetry
	AttrRQPSN           = transport.AttrRQPSN
	AttrMaxRdAtomic     = transport.AttrMaxRdAtomic
	AttrMinRNRTimer     = transport.AttrMinRNRTimer
	AttrSQPSN           = transport.AttrSQPSN
	AttrMaxDestRdAtomic = transport.AttrMaxDestRdAtomic
	AttrDestQPN         = transport.AttrDestQPN
	AttrWindow          = transport.AttrWindow
)

// Asynchronous events.
const (
	EventCQError         = transport.EventCQError
	EventQPFatal         = transport.EventQPFatal
	EventQPRequestError  = transport.EventQPRequestError
	EventQPAccessError   = transport.EventQPAccessError
	EventCommEstablished = transport.EventCommEstablished
	EventSQDrained       = transport.EventSQDrained
	EventLastWQEReached  = transport.EventLastWQEReached
	EventSRQError        = transport.EventSRQError
	EventSRQLimitReached = transport.EventSRQLimitReached
	EventPortActive      = transport.EventPortActive
	EventPortError       = transport.EventPortError
	EventPortMTU         = transport.EventPortMTU
)
