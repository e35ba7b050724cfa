package transport

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
	"github.com/goroce/goroce/transport/cc"
)

// QPState is the state of a queue pair (ibv_qp_state, same values).
type QPState uint8

// The states.
const (
	StateReset QPState = iota
	StateInit
	StateRTR
	StateRTS
	StateSQD
	StateSQE
	StateErr
	numQPStates
)

var stateNames = [numQPStates]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

func (s QPState) String() string {
	if s < numQPStates {
		return stateNames[s]
	}
	return fmt.Sprintf("QPState(%d)", uint8(s))
}

// QPCaps are the sizes of a QP's work queues.
type QPCaps struct {
	MaxSendWR  int
	MaxRecvWR  int
	MaxSendSGE int
	MaxRecvSGE int
	MaxInline  int // bytes
}

// QPInitAttr describes a QP to create.
type QPInitAttr struct {
	Type     ib.Transport // ib.RC, ib.UC or ib.UD
	PD       *mem.PD
	SendCQ   *CQ
	RecvCQ   *CQ
	SRQ      *SRQ // nil: the QP has its own receive queue
	Caps     QPCaps
	SigAll   bool // every send work request makes a completion
	QPN      ib.QPN
	UserData any // returned by QP.UserData, for the shell

	// Congestion replaces the congestion control of the engine's Tuning; nil keeps it. UD QPs have
	// no congestion control.
	Congestion *cc.Config
}

// AddressVector describes the way to a peer (ibv_ah_attr with a GRH).
type AddressVector struct {
	DGID         ib.GID
	SGIDIndex    int
	FlowLabel    uint32 // 20 bits
	TrafficClass uint8
	HopLimit     uint8 // 0 means 64
}

// QPAttr holds the attributes of Modify and Query; an AttrMask selects the valid fields
// (ibv_qp_attr).
type QPAttr struct {
	State             QPState
	CurState          QPState
	Access            mem.Access // remote operations that peers may perform
	PKeyIndex         uint16
	PortNum           uint8 // 1
	QKey              ib.QKey
	AV                AddressVector
	PathMTU           ib.MTU
	DestQPN           ib.QPN
	RQPSN             ib.PSN // first PSN expected
	SQPSN             ib.PSN // first PSN sent
	MaxRdAtomic       uint8  // READs and atomics outstanding as requester
	MaxDestRdAtomic   uint8  // READs and atomics outstanding as responder
	MinRNRTimer       ib.RNRCode
	Timeout           ib.TimeoutCode
	RetryCnt          uint8 // 0 to 7
	RNRRetry          uint8 // 0 to 7; 7 is for ever
	EnSQDAsyncNotify  bool
	SQDraining        bool // query only
	MaxUnackedPackets int  // goroce's own: send window in packets, also at first; 0 is the default
	// SilenceNs, goroce's own, is how long to ask a silent peer, in nanoseconds. If RetryCnt runs
	// out sooner, more retries follow, at most a second apart. 0: RetryCnt decides.
	SilenceNs int64
}

// AttrMask selects fields of a QPAttr (ibv_qp_attr_mask, same bit values).
type AttrMask uint32

// The mask bits.
const (
	AttrState           AttrMask = 1 << 0
	AttrCurState        AttrMask = 1 << 1
	AttrEnSQDNotify     AttrMask = 1 << 2
	AttrAccess          AttrMask = 1 << 3
	AttrPKeyIndex       AttrMask = 1 << 4
	AttrPort            AttrMask = 1 << 5
	AttrQKey            AttrMask = 1 << 6
	AttrAV              AttrMask = 1 << 7
	AttrPathMTU         AttrMask = 1 << 8
	AttrTimeout         AttrMask = 1 << 9
	AttrRetryCnt        AttrMask = 1 << 10
	AttrRNRRetry        AttrMask = 1 << 11
	AttrRQPSN           AttrMask = 1 << 12
	AttrMaxRdAtomic     AttrMask = 1 << 13
	AttrMinRNRTimer     AttrMask = 1 << 15
	AttrSQPSN           AttrMask = 1 << 16
	AttrMaxDestRdAtomic AttrMask = 1 << 17
	AttrDestQPN         AttrMask = 1 << 20

	// AttrWindow selects MaxUnackedPackets; not a verbs attribute.
	AttrWindow AttrMask = 1 << 30
	// AttrSilence selects SilenceNs; not a verbs attribute.
	AttrSilence AttrMask = 1 << 31
)
