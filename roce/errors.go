package roce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/goroce/goroce/transport"
)

// Errors of this package. Errors of the engine come as they are: those below
// that are equal to errors of package transport match either name, and
// errors of package mem match mem.ErrBusy and so on.
var (
	// ErrClosed is returned by every call on a closed device or object, and by
	// calls that wait while it closes. It matches net.ErrClosed.
	ErrClosed error = closedError{}

	ErrInvalidState  = transport.ErrInvalidState
	ErrQueueFull     = transport.ErrQueueFull
	ErrInvalidOpcode = transport.ErrInvalidOpcode
	ErrBusy          = transport.ErrBusy
	ErrLimit         = transport.ErrLimit
	ErrInvalidAttr   = transport.ErrInvalidAttr

	// ErrNoChannel is returned by CQ.RequestNotify on a CQ without completion
	// channel.
	ErrNoChannel = errors.New("roce: the CQ has no completion channel")
	// ErrCQOverflow is returned by CQ.Poll and CQ.Wait when completions were lost because
	// the queue was full, after those that were not. What is posted on its queue
	// pairs, which are in ERR or will be, completes no more (IBTA 11.6.3.1).
	ErrCQOverflow = errors.New("roce: the CQ overflowed: create it for all that may be posted at a time")
	// ErrNoLocalGID is wrapped when no local address fits that of a peer.
	ErrNoLocalGID = errors.New("roce: no local address of the peer's address family")
	// ErrMulticast is wrapped when the link or the engine cannot do multicast.
	ErrMulticast = errors.New("roce: multicast is not supported by this link")
)

type closedError struct{}

func (closedError) Error() string        { return "roce: closed" }
func (closedError) Is(target error) bool { return target == net.ErrClosed }

// OpenError says why a device could not be opened, and what to do about it.
type OpenError struct {
	Addr netip.Addr // the address concerned; invalid if it is not about one
	Hint string     // what to do
	Err  error
}

func (e *OpenError) Error() string {
	s := "roce: open"
	if e.Addr.IsValid() {
		s += " " + e.Addr.String()
	}
	s = fmt.Sprintf("%s: %v", s, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *OpenError) Unwrap() error { return e.Err }

// ArgError says which argument of a call is wrong. It matches
// [ErrInvalidAttr].
type ArgError struct {
	Op  string // the call
	Arg string // the argument
	Why string
}

func (e *ArgError) Error() string { return fmt.Sprintf("roce: %s: %s: %s", e.Op, e.Arg, e.Why) }

// Is makes every ArgError match ErrInvalidAttr.
func (e *ArgError) Is(target error) bool { return target == ErrInvalidAttr }

// StatusError is a work completion with a status other than success, as an
// error.
type StatusError struct {
	WC WC
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("roce: work request %d on QP %v: %v (vendor error %#x)",
		e.WC.ID, e.WC.QPN, e.WC.Status, e.WC.VendorErr)
}

// WCError returns nil for a successful completion and a [StatusError]
// otherwise.
func WCError(wc *WC) error {
	if wc.Status == WCSuccess {
		return nil
	}
	return &StatusError{*wc}
}
