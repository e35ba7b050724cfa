package roce

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// OpError is the error of operations of [Conn], [Listener], [Dialer] and
// [ListenConfig]. It is a net.Error. It matches
//
//   - net.ErrClosed after Close on this side;
//   - os.ErrDeadlineExceeded and context.DeadlineExceeded when the context
//     ran into its deadline;
//   - ErrPeerClosed, and syscall.EPIPE, when the peer has closed;
//   - what else Err matches: *RejectedError, ErrConnRefused, ErrUnreachable,
//     *StatusError, ...
type OpError struct {
	Op            string
	Local, Remote netip.AddrPort // the zero AddrPort where not known
	Err           error
}

var _ net.Error = (*OpError)(nil)

// ErrPeerClosed is matched when the peer has closed the connection.
var ErrPeerClosed error = peerClosedError{}

type peerClosedError struct{}

func (peerClosedError) Error() string        { return "the peer has closed the connection" }
func (peerClosedError) Is(target error) bool { return target == syscall.EPIPE }

func (e *OpError) Error() string {
	s := "roce: " + e.Op
	if e.Local.IsValid() {
		s += " " + e.Local.String()
		if e.Remote.IsValid() {
			s += "->"
		}
	} else if e.Remote.IsValid() {
		s += " "
	}
	if e.Remote.IsValid() {
		s += e.Remote.String()
	}
	return s + ": " + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// Is adds what net makes of a context's deadline.
func (e *OpError) Is(target error) bool {
	return target == os.ErrDeadlineExceeded && errors.Is(e.Err, context.DeadlineExceeded)
}

// Timeout reports whether the peer, or the context, took too long.
func (e *OpError) Timeout() bool {
	var s *StatusError
	switch {
	case errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, ErrUnreachable):
		return true
	case errors.As(e.Err, &s):
		return s.WC.Status == WCRetryExcErr || s.WC.Status == WCRNRRetryExcErr
	}
	return false
}

// Temporary is part of net.Error; nothing is.
func (e *OpError) Temporary() bool { return false }
