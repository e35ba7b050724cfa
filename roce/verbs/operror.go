package verbs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/goroce/goroce/roce/internal/access"
)

// OpError says which operation failed, and why. It is a net.Error. All errors of roce.Conn,
// Listener, Dialer and ListenConfig are of this type. It matches
//
//   - net.ErrClosed after Close on this side;
//   - os.ErrDeadlineExceeded and context.DeadlineExceeded when the context ran into its deadline;
//   - ErrPeerClosed, and syscall.EPIPE, when the peer has closed;
//   - roce.ErrMaybeDone when the peer may have carried out the operation all the same;
//   - whatever else Err matches: *rdmacm.RejectedError, ErrConnRefused, ErrUnreachable,
//     *StatusError, ...
type OpError struct {
	Op            string         // such as "post send"
	Local, Remote netip.AddrPort // of the connection; the zero AddrPort where not known
	Err           error          // the cause; errors.Is and errors.As look into it
}

var _ net.Error = (*OpError)(nil)

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
	return s + ": " + access.Within(e.Err, e.Op, e.Local, e.Remote)
}

func (e *OpError) Unwrap() error { return e.Err }

// Is adds the errors that net and the operating system have for the same case.
func (e *OpError) Is(target error) bool {
	var want error
	switch target {
	case os.ErrDeadlineExceeded:
		want = context.DeadlineExceeded
	case ErrClosed, net.ErrClosed:
		want = ErrDestroyed
	case syscall.EMSGSIZE:
		want = ErrMessageTooLong
	case syscall.EBUSY:
		want = ErrBusy
	default:
		return false
	}
	return errors.Is(e.Err, want)
}

// Timeout reports whether the peer, or the context, took too long.
func (e *OpError) Timeout() bool {
	switch {
	case errors.Is(e.Err, context.DeadlineExceeded), errors.Is(e.Err, syscall.ETIMEDOUT):
		return true
	}
	return false
}

// Temporary implements net.Error; it always returns false.
func (e *OpError) Temporary() bool { return false }
