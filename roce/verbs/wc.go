package verbs

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport"
)

// WC is a work completion (ibv_wc): the outcome of a work request. If the status is not WCSuccess,
// only ID, Status, QPN and VendorErr are valid. [WCError] turns it into an error.
type WC struct {
	ID      uint64   // of the work request (wr_id)
	Status  WCStatus // WCSuccess, or why it failed
	Opcode  WCOpcode // what completed; a receive if it has the bit WCRecv
	Flags   WCFlags  // which of the fields below are valid, and whether there is a GRH
	SL      uint8    // receives on UD: SLRoCEv2IPv4 or SLRoCEv2IPv6 (sl)
	QPN     ib.QPN   // of the queue pair that the request was posted to; with an SRQ, the one that took it (qp_num)
	SrcQP   ib.QPN   // receives on UD: the sender (src_qp)
	ByteLen uint32   // bytes received, on UD with the 40 of the GRH; or bytes of the request that was carried out
	Imm     uint32   // with WCWithImm: the sender's SendWR.Imm (imm_data)
	InvKey  ib.RKey  // with WCWithInv: the key of this side that the sender took back (invalidated_rkey)
	// Why, in more detail than Status: the syndrome of the peer's NAK, or a reason of this device
	// (vendor_err).
	VendorErr uint32
}

// WCStatus is the outcome of a work request (ibv_wc_status, same values). Its String matches
// ibv_wc_status_str.
type WCStatus = transport.WCStatus

// The statuses that occur; the others of verbs are for features that RoCE does not have.
const (
	WCSuccess WCStatus = transport.WCSuccess
	// The message was longer than the receive, or packets of the path MTU do not pass.
	WCLocalLenErr    WCStatus = transport.WCLocalLenErr
	WCLocalQPOpErr   WCStatus = transport.WCLocalQPOpErr   // the queue pair cannot carry out the request
	WCLocalProtErr   WCStatus = transport.WCLocalProtErr   // a wrong LKey, range or right of this side's memory
	WCFlushErr       WCStatus = transport.WCFlushErr       // an earlier error, or a disconnect, ended the queue pair
	WCMWBindErr      WCStatus = transport.WCMWBindErr      // the window could not be bound, or the key not invalidated
	WCBadRespErr     WCStatus = transport.WCBadRespErr     // the peer's answer did not fit the request
	WCLocalAccessErr WCStatus = transport.WCLocalAccessErr // the peer's WRITE with immediate was not allowed
	// The peer cannot take the request: too long, or not allowed on its queue pair.
	WCRemoteInvReqErr WCStatus = transport.WCRemoteInvReqErr
	WCRemoteAccessErr WCStatus = transport.WCRemoteAccessErr // a wrong RKey, range or right of the peer's memory
	WCRemoteOpErr     WCStatus = transport.WCRemoteOpErr     // the peer failed to carry it out
	// The peer did not acknowledge, after QPAttr.RetryCnt retries.
	WCRetryExcErr WCStatus = transport.WCRetryExcErr
	// The peer had no receive posted, after QPAttr.RNRRetry retries.
	WCRNRRetryExcErr WCStatus = transport.WCRNRRetryExcErr
)

// WCOpcode says what completed (ibv_wc_opcode).
type WCOpcode = transport.WCOpcode

// What completed. Receives have the bit WCRecv.
const (
	WCSend        WCOpcode = transport.WCSend // WRSend, WRSendImm, WRSendInv
	WCWrite       WCOpcode = transport.WCWrite
	WCRead        WCOpcode = transport.WCRead
	WCCompareSwap WCOpcode = transport.WCCompareSwap
	WCFetchAdd    WCOpcode = transport.WCFetchAdd
	WCBindMW      WCOpcode = transport.WCBindMW
	WCLocalInv    WCOpcode = transport.WCLocalInv
	WCFlush       WCOpcode = transport.WCFlush
	WCAtomicWrite WCOpcode = transport.WCAtomicWrite
	WCRecv        WCOpcode = transport.WCRecv // a receive, filled by a SEND
	// A receive consumed by a WRITE with immediate, whose data is elsewhere.
	WCRecvWriteImm WCOpcode = transport.WCRecvWriteImm
)

// WCFlags say which fields of a [WC] are valid (ibv_wc_flags, same bit values).
type WCFlags = transport.WCFlags

// The flags of work completions.
const (
	// WCWithGRH: the first 40 bytes of the receive are the global routing header: the
	// IPv6 header, or 20 bytes and the IPv4 header. Always on UD.
	WCWithGRH WCFlags = transport.WCWithGRH
	WCWithImm WCFlags = transport.WCWithImm // Imm is valid
	WCWithInv WCFlags = transport.WCWithInv // InvKey is valid
)

// The values of WC.SL for a receive on UD, as ConnectX adapters set it: the packet's IP version,
// and so where the addresses are in the 40 bytes of the GRH.
const (
	SLRoCEv2IPv4 = transport.SLRoCEv2IPv4
	SLRoCEv2IPv6 = transport.SLRoCEv2IPv6
)
