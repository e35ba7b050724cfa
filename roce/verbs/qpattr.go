package verbs

import (
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// QPCaps has the sizes of the queues of a queue pair (ibv_qp_cap). Each field says what 0 means.
type QPCaps struct {
	MaxSendWR  int // send work requests that have not completed; 0 is 128
	MaxRecvWR  int // receives that have not completed; 0 is 128. Ignored with an SRQ
	MaxSendSGE int // elements of a send work request; 0 is 4
	MaxRecvSGE int // elements of a receive; 0 is 4
	MaxInline  int // bytes that SendInline can copy (max_inline_data); 0 is none
}

// AddressVector is the path to a peer (ibv_ah_attr, with its ibv_global_route).
type AddressVector struct {
	DGID         GID    // of the peer, or a multicast group (dgid)
	SGIDIndex    int    // the local address to send from, an index of [Device.GIDs] (sgid_index)
	FlowLabel    uint32 // 20 bits; selects the UDP source port; 0 lets the device choose (flow_label)
	TrafficClass uint8  // of the IP header: DSCP and ECN (traffic_class)
	HopLimit     uint8  // of the IP header; 0 is 64 (hop_limit)
}

// QPAttr has the attributes that [QP.Modify] sets and [QP.Query] returns (ibv_qp_attr). Modify uses
// the fields that its mask selects; which of them are required depends on the states before and
// after.
type QPAttr struct {
	State           QPState       // AttrState: the state to go to (qp_state)
	CurState        QPState       // AttrCurState: the state that the caller believes it is in (cur_qp_state)
	Access          Access        // AttrAccess: what peers may do (qp_access_flags)
	PKeyIndex       uint16        // AttrPKeyIndex: 0 (pkey_index)
	PortNum         uint8         // AttrPort: 1 (port_num)
	QKey            ib.QKey       // AttrQKey: UD only (qkey)
	AV              AddressVector // AttrAV: the path to the peer (ah_attr)
	PathMTU         ib.MTU        // AttrPathMTU: must be the peer's (path_mtu)
	DestQPN         ib.QPN        // AttrDestQPN: the peer's queue pair (dest_qp_num)
	RQPSN           ib.PSN        // AttrRQPSN: the first PSN that the peer sends (rq_psn)
	SQPSN           ib.PSN        // AttrSQPSN: the first PSN to send (sq_psn)
	MaxRdAtomic     uint8         // AttrMaxRdAtomic: READs and atomics to the peer at a time (max_rd_atomic)
	MaxDestRdAtomic uint8         // AttrMaxDestRdAtomic: READs and atomics of the peer at a time (max_dest_rd_atomic)
	// AttrMinRNRTimer: how long the peer waits when no receive is posted; code 0 is 655 ms
	// (min_rnr_timer).
	MinRNRTimer ib.RNRCode
	Timeout     ib.TimeoutCode // AttrTimeout: the ACK timeout, 4.096 us x 2^Timeout; 0 is none (timeout)
	RetryCnt    uint8          // AttrRetryCnt: 0 to 7 retries when no ACK comes (retry_cnt)
	// AttrRNRRetry: 0 to 6 retries when the peer has no receive posted; 7 is for ever (rnr_retry).
	RNRRetry         uint8
	EnSQDAsyncNotify bool // AttrEnSQDNotify: EventSQDrained is wanted (en_sqd_async_notify)
	SQDraining       bool // Query only: in SQD, and requests are still on their way (sq_draining)
	// AttrWindow: packets that may be sent without being acknowledged; 0 is the default. Not part
	// of verbs.
	MaxUnackedPackets int
	SilenceTimeout    time.Duration // AttrSilence: as in ConnAttr. Not part of verbs
}

// QPState is the state of a queue pair (ibv_qp_state, same values).
type QPState = transport.QPState

// The states of queue pairs (IBTA 10.3.1).
const (
	StateReset QPState = transport.StateReset // made; nothing can be posted
	StateInit  QPState = transport.StateInit  // receives can be posted
	StateRTR   QPState = transport.StateRTR   // receives from the peer
	StateRTS   QPState = transport.StateRTS   // also sends
	StateSQD   QPState = transport.StateSQD   // starts nothing new of its send queue
	StateSQE   QPState = transport.StateSQE   // UC, UD: a send failed; still receives
	StateErr   QPState = transport.StateErr   // flushes everything
)

// AttrMask selects fields of a [QPAttr] (ibv_qp_attr_mask, same bit values).
type AttrMask = transport.AttrMask

// The bits of an AttrMask; QPAttr says which field each selects.
const (
	AttrState           AttrMask = transport.AttrState
	AttrCurState        AttrMask = transport.AttrCurState
	AttrEnSQDNotify     AttrMask = transport.AttrEnSQDNotify
	AttrAccess          AttrMask = transport.AttrAccess
	AttrPKeyIndex       AttrMask = transport.AttrPKeyIndex
	AttrPort            AttrMask = transport.AttrPort
	AttrQKey            AttrMask = transport.AttrQKey
	AttrAV              AttrMask = transport.AttrAV
	AttrPathMTU         AttrMask = transport.AttrPathMTU
	AttrTimeout         AttrMask = transport.AttrTimeout
	AttrRetryCnt        AttrMask = transport.AttrRetryCnt
	AttrRNRRetry        AttrMask = transport.AttrRNRRetry
	AttrRQPSN           AttrMask = transport.AttrRQPSN
	AttrMaxRdAtomic     AttrMask = transport.AttrMaxRdAtomic
	AttrMinRNRTimer     AttrMask = transport.AttrMinRNRTimer
	AttrSQPSN           AttrMask = transport.AttrSQPSN
	AttrMaxDestRdAtomic AttrMask = transport.AttrMaxDestRdAtomic
	AttrDestQPN         AttrMask = transport.AttrDestQPN
	AttrWindow          AttrMask = transport.AttrWindow  // not part of verbs
	AttrSilence         AttrMask = transport.AttrSilence // not part of verbs
)

// toEngine returns the attributes in the engine's form.
func (a *QPAttr) toEngine() transport.QPAttr {
	return transport.QPAttr{
		State: a.State, CurState: a.CurState, Access: a.Access, PKeyIndex: a.PKeyIndex,
		PortNum: a.PortNum, QKey: a.QKey, AV: transport.AddressVector(a.AV), PathMTU: a.PathMTU,
		DestQPN: a.DestQPN, RQPSN: a.RQPSN, SQPSN: a.SQPSN, MaxRdAtomic: a.MaxRdAtomic,
		MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer,
		Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
		EnSQDAsyncNotify: a.EnSQDAsyncNotify, SQDraining: a.SQDraining, MaxUnackedPackets: a.MaxUnackedPackets,
		SilenceNs: int64(a.SilenceTimeout),
	}
}

// ofEngine is the reverse of toEngine.
func (a *QPAttr) ofEngine(t *transport.QPAttr) {
	*a = QPAttr{
		State: t.State, CurState: t.CurState, Access: t.Access, PKeyIndex: t.PKeyIndex,
		PortNum: t.PortNum, QKey: t.QKey, AV: AddressVector(t.AV), PathMTU: t.PathMTU, DestQPN: t.DestQPN,
		RQPSN: t.RQPSN, SQPSN: t.SQPSN, MaxRdAtomic: t.MaxRdAtomic, MaxDestRdAtomic: t.MaxDestRdAtomic,
		MinRNRTimer: t.MinRNRTimer, Timeout: t.Timeout, RetryCnt: t.RetryCnt, RNRRetry: t.RNRRetry,
		EnSQDAsyncNotify: t.EnSQDAsyncNotify, SQDraining: t.SQDraining, MaxUnackedPackets: t.MaxUnackedPackets,
		SilenceTimeout: time.Duration(t.SilenceNs),
	}
}
