package verbs

import (
	"fmt"
	"syscall"

	"github.com/goroce/goroce/transport"
)

// StatusError is a work completion with a status other than success, as an error. If the peer did
// not acknowledge a request after all retries, it matches [ErrUnreachable], syscall.EHOSTUNREACH
// and syscall.ETIMEDOUT; if the peer was never ready to receive, syscall.ETIMEDOUT; if the packets
// of the request are too long for the path, syscall.EMSGSIZE.
type StatusError struct {
	WC WC
}

func (e *StatusError) Error() string {
	of := fmt.Sprintf("work request %d on ", e.WC.ID)
	if e.WC.ID >= reservedIDs {
		of = "" // the number means nothing to the application
	}
	s := fmt.Sprintf("roce: %sQP %v: %v (vendor error %#x)", of, e.WC.QPN, e.WC.Status, e.WC.VendorErr)
	h := statusHints[e.WC.Status]
	switch {
	case e.WC.Status == WCRetryExcErr && e.WC.VendorErr&transport.VendorUnreachable != 0:
		h = noWayHint
	case e.pathMTU():
		h = mtuHints[e.WC.Status]
	}
	if h != "" {
		s += ": " + h
	}
	return s
}

// statusHints say what a status usually means.
var statusHints = map[WCStatus]string{
	WCLocalLenErr:     "a message was longer than the receive it came to",
	WCLocalProtErr:    "the local memory is not registered for it, or has gone",
	WCFlushErr:        "an earlier error or a disconnect has ended the queue pair",
	WCRemoteInvReqErr: "the peer cannot take the request: the message is longer than the receive that it has posted (RecvBytes of its ConnConfig, if it is one of ours), or its queue pair does not allow the operation",
	WCRemoteAccessErr: "the peer's memory does not allow it: a wrong key, range or access right",
	WCRemoteOpErr:     "the peer failed to carry it out",
	WCRetryExcErr:     "the peer did not acknowledge it: it is gone, or the way to it is, or packets of the path MTU do not get through",
	WCRNRRetryExcErr:  "the peer had no receive posted for it",
}

// noWayHint is used instead when this host could not send.
const noWayHint = "this host could not send it: the address of the connection has gone from here, the interface is down, or nothing leads to the peer"

// mtuHints are used instead when packets of the path MTU do not pass, or may not.
var mtuHints = map[WCStatus]string{
	WCLocalLenErr: "its packets are too long for the path: an interface or a router on the way has a smaller MTU than the connection was made for, which a new connection would use",
	WCRetryExcErr: "the peer did not acknowledge a packet of the full path MTU: it is gone, or the way to it is, or its MTU is smaller than the connection was made for (Device.Port tells that of this side, ConnAttr.MTU and ConnParam.MTU set that of a connection)",
}

// pathMTU reports whether the path MTU may be the cause.
func (e *StatusError) pathMTU() bool {
	return mtuHints[e.WC.Status] != "" && e.WC.VendorErr&transport.VendorPathMTU != 0
}

// Is adds the errors that net has for a peer that does not answer.
func (e *StatusError) Is(target error) bool {
	switch e.WC.Status {
	case WCLocalLenErr:
		return target == syscall.EMSGSIZE && e.pathMTU()
	case WCRetryExcErr:
		return target == ErrUnreachable || target == syscall.EHOSTUNREACH || target == syscall.ETIMEDOUT
	case WCRNRRetryExcErr:
		return target == syscall.ETIMEDOUT
	}
	return false
}

// WCError returns nil for a successful completion and a [StatusError] otherwise.
func WCError(wc *WC) error {
	if wc == nil {
		return argError("completion error", "wc", "is nil")
	}
	if wc.Status == WCSuccess {
		return nil
	}
	return &StatusError{*wc}
}
