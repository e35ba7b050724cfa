package rsocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// Network is what Addr.Network returns, and OpError.Net of the errors of this package.
const Network = "rsocket"

// Addr is the address of one end of a connection.
type Addr struct{ netip.AddrPort }

// Network returns "rsocket".
func (Addr) Network() string { return Network }

// ProtocolError says how the peer broke the protocol.
type ProtocolError struct{ What string }

func (e *ProtocolError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return "rsocket: the peer broke the protocol: " + e.What
}

// LostError is the error of Close if the peer's adapter has not acknowledged all written data when
// Close stops waiting, or the connection ends. errors.As finds it. It matches whatever Err matches:
// os.ErrDeadlineExceeded if Close ran out of time, syscall.ETIMEDOUT if the peer has vanished,
// syscall.ECONNRESET if the peer has ended the connection.
type LostError struct {
	Bytes int64 // bytes that the peer may not have; it may have some of them
	Err   error // why
}

func (e *LostError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%d bytes may be lost: %v", e.Bytes, e.Err)
}

func (e *LostError) Unwrap() error {
	if e == nil || e.Err == nil {
		return errInvalid
	}
	return e.Err
}

// Timeout and Temporary make it a net.Error.
func (e *LostError) Timeout() bool {
	t, ok := e.Unwrap().(interface{ Timeout() bool })
	return ok && t.Timeout()
}
func (e *LostError) Temporary() bool { return false }

var (
	// ErrNotMapped is the error of [Conn.WriteAt] for bytes that the peer has not mapped.
	ErrNotMapped = errors.New("rsocket: the peer has mapped nothing at this offset")
	// ErrNoMaps is the error of [Conn.Map] when the peer's table is full, or has no entries at all.
	ErrNoMaps = errors.New("rsocket: the peer has no room for a mapping (see Config.IOMaps)")
)

// brokenError says why a connection ended other than by Close. It matches the error that TCP has
// for the case, and the underlying cause.
type brokenError struct {
	errno syscall.Errno
	cause error
}

// Error leaves out a flush, which says no more about the cause than the errno: a log can count
// errors whose texts are the same.
func (e *brokenError) Error() string {
	what, why := e.errno.Error(), access.Plain(e.cause)
	var status *verbs.StatusError
	if errors.As(e.cause, &status) && status.WC.Status == verbs.WCFlushErr {
		return what
	}
	if strings.Contains(why, what) {
		return why
	}
	return what + ": " + why
}
func (e *brokenError) Unwrap() []error { return []error{e.errno, e.cause} }

// Timeout makes it a net.Error.
func (e *brokenError) Timeout() bool   { return e.errno.Timeout() }
func (e *brokenError) Temporary() bool { return false }

// broken turns the status of a completion into an error.
func broken(wc *verbs.WC) error {
	errno := syscall.EIO
	switch wc.Status {
	case verbs.WCRetryExcErr, verbs.WCRNRRetryExcErr:
		errno = syscall.ETIMEDOUT
	case verbs.WCFlushErr:
		errno = syscall.ECONNRESET
	}
	return &brokenError{errno, verbs.WCError(wc)}
}

// dialError maps errors of the communication manager to those of package net.
func dialError(err error) error {
	var rejected *roce.RejectedError
	switch {
	case errors.As(err, &rejected):
		return &brokenError{syscall.ECONNREFUSED, err}
	case errors.Is(err, roce.ErrConnRefused):
		return &brokenError{syscall.ECONNREFUSED, err}
	case errors.Is(err, syscall.ETIMEDOUT):
		return &brokenError{syscall.ETIMEDOUT, err}
	case errors.Is(err, roce.ErrUnreachable):
		return &brokenError{syscall.EHOSTUNREACH, err}
	case errors.Is(err, roce.ErrNoLocalGID):
		return &brokenError{syscall.ENETUNREACH, err}
	case errors.Is(err, roce.ErrAddrNotLocal):
		return &brokenError{syscall.EADDRNOTAVAIL, err}
	case errors.Is(err, roce.ErrAddrInUse):
		return &brokenError{syscall.EADDRINUSE, err}
	case errors.Is(err, roce.ErrClosed):
		if _, ok := err.(interface{ Unwrap() []error }); ok {
			return err // the device has failed, and the error says why
		}
		return net.ErrClosed // the device is closed
	}
	return contextError(err)
}

// opError wraps an error as net does. It returns io.EOF unchanged.
func opError(op string, local, remote Addr, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if b, ok := err.(*brokenError); ok {
		err = &brokenError{b.errno, access.Cause(b.cause, op, local.AddrPort, remote.AddrPort)}
	} else {
		err = access.Cause(err, op, local.AddrPort, remote.AddrPort)
	}
	e := &net.OpError{Op: op, Net: Network, Err: err}
	if local.IsValid() {
		e.Source = local
	}
	if remote.IsValid() {
		e.Addr = remote
	}
	return e
}

// argError says which argument is invalid. It matches roce.ErrInvalidAttr.
func argError(op, arg, why string) error { return &roce.ArgError{Op: op, Arg: arg, Why: why} }

// contextError maps an error that a context may have caused to that of package net.
func contextError(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return access.DeadlineError{}
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	return err
}

// errInvalid is the error that package net has for calls on nil and zero connections and listeners.
const errInvalid = syscall.EINVAL

// errTimeout is os.ErrDeadlineExceeded, whose Timeout method net.OpError calls.
var errTimeout = os.ErrDeadlineExceeded

// errCanceled ends a wait.
var errCanceled = context.Canceled
