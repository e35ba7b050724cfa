package transport

import (
	"fmt"

	"github.com/goroce/goroce/ib"
)

// WCStatus is the outcome of a work request (ibv_wc_status, same values).
type WCStatus uint8

// The statuses.
const (
	WCSuccess           WCStatus = 0
	WCLocalLenErr       WCStatus = 1
	WCLocalQPOpErr      WCStatus = 2
	WCLocalEECOpErr     WCStatus = 3
	WCLocalProtErr      WCStatus = 4
	WCFlushErr          WCStatus = 5
	WCMWBindErr         WCStatus = 6
	WCBadRespErr        WCStatus = 7
	WCLocalAccessErr    WCStatus = 8
	WCRemoteInvReqErr   WCStatus = 9
	WCRemoteAccessErr   WCStatus = 10
	WCRemoteOpErr       WCStatus = 11
	WCRetryExcErr       WCStatus = 12
	WCRNRRetryExcErr    WCStatus = 13
	WCLocalRDDViolErr   WCStatus = 14
	WCRemoteInvRDReqErr WCStatus = 15
	WCRemoteAbortErr    WCStatus = 16
	WCInvEECNErr        WCStatus = 17
	WCInvEECStateErr    WCStatus = 18
	WCFatalErr          WCStatus = 19
	WCRespTimeoutErr    WCStatus = 20
	WCGeneralErr        WCStatus = 21
)

var wcStatusText = [...]string{
	"success", "local length error", "local QP operation error",
	"local EE context operation error", "local protection error",
	"Work Request Flushed Error", "memory management operation error",
	"bad response error", "local access error", "remote invalid request error",
	"remote access error", "remote operation error",
	"transport retry counter exceeded", "RNR retry counter exceeded",
	"local RDD violation error", "remote invalid RD request",
	"aborted error", "invalid EE context number", "invalid EE context state",
	"fatal error", "response timeout error", "general error",
}

// String returns the text of ibv_wc_status_str.
func (s WCStatus) String() string {
	if int(s) < len(wcStatusText) {
		return wcStatusText[s]
	}
	return fmt.Sprintf("WCStatus(%d)", uint8(s))
}

// WCOpcode says which operation completed (ibv_wc_opcode).
type WCOpcode uint8

// The opcodes. Receive opcodes have the bit WCRecv set.
const (
	WCSend WCOpcode = iota
	WCWrite
	WCRead
	WCCompareSwap
	WCFetchAdd
	WCBindMW
	WCLocalInv
	WCFlush
	WCAtomicWrite
	WCRecv         WCOpcode = 1 << 7
	WCRecvWriteImm WCOpcode = WCRecv + 1
)

// WCFlags says which fields of a WC are valid (ibv_wc_flags).
type WCFlags uint8

// The flags.
const (
	WCWithGRH WCFlags = 1 << 0 // the first 40 bytes of the buffer are the GRH area
	WCWithImm WCFlags = 1 << 1
	WCWithInv WCFlags = 1 << 3
)

// WC is a work completion. Unless Status is WCSuccess, only ID, Status, QPN and VendorErr are
// valid.
type WC struct {
	ID        uint64
	Status    WCStatus
	Opcode    WCOpcode
	Flags     WCFlags
	SL        uint8   // UD receives: SLRoCEv2IPv4 or SLRoCEv2IPv6; otherwise 0
	QPN       ib.QPN  // local QP
	SrcQP     ib.QPN  // UD
	ByteLen   uint32  // bytes received (including the 40 of the GRH area), or sent
	Imm       uint32  // with WCWithImm
	InvKey    ib.RKey // with WCWithInv: the key that the peer invalidated
	VendorErr uint32  // the syndrome or internal reason behind the status
}

// Values of WC.SL for UD receives, which describe the packet since Ethernet has no service level:
// bit 3 is UDP, and the low bits are the kind of IP header, 1 for IPv6 and 2 for IPv4. ConnectX
// adapters report these, and UCX relies on them to parse the GRH; rdma_rxe reports 0.
const (
	SLRoCEv2IPv4 = 8 | 2
	SLRoCEv2IPv6 = 8 | 1
)
