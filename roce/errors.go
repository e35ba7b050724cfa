package roce

import (
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// The errors of this package, and of those beneath, are of a few types. errors.As
// finds them in whatever a call returns.
type (
	// OpError is an operation that failed: Op, the addresses Local and Remote as far
	// as they are known, and Err, why. It is a net.Error.
	OpError = verbs.OpError
	// ArgError says which argument or option cannot be: Op, the call; Arg, the
	// argument; Why, with its limits. It matches syscall.EINVAL.
	ArgError = verbs.ArgError
	// OpenError says why a device could not be opened: Addr, the address concerned;
	// Err; and Hint, what to do.
	OpenError = verbs.OpenError
	// StatusError is an operation that was carried out and failed: WC, with the
	// status of the work completion and the vendor's error.
	StatusError = verbs.StatusError
	// RejectedError says that the peer refused the connection: Reason, Info,
	// PrivateData, and Remote, who was asked.
	RejectedError = rdmacm.RejectedError
	// NoRouteError says that no local address leads to a peer: Peer, Local, those
	// that there are, and Err, what the kernel said.
	NoRouteError = verbs.NoRouteError
)

// The kinds of errors, for errors.Is. Where package net or the operating system has an
// error for the same case, errors.Is finds that too: net.ErrClosed,
// os.ErrDeadlineExceeded, syscall.ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT,
// EADDRINUSE, EADDRNOTAVAIL, EPIPE, EMSGSIZE, EBUSY, EINVAL.
var (
	// ErrClosed is matched by the errors of calls on something that this side has
	// closed, and of calls that waited meanwhile. It matches net.ErrClosed.
	ErrClosed = verbs.ErrClosed
	// ErrPeerClosed is matched when the peer has closed the connection in order. It
	// matches syscall.EPIPE.
	ErrPeerClosed = verbs.ErrPeerClosed
	// ErrConnRefused is matched when the host says that nothing there has the UDP port of RoCE, and
	// by a *RejectedError when nobody listens. It matches syscall.ECONNREFUSED.
	ErrConnRefused = verbs.ErrConnRefused
	// ErrUnreachable is matched when the peer does not answer: neither the
	// request for a connection, nor an operation after all its retries. That may
	// be the program, the host or the way to it, which cannot be told apart, so
	// that it matches both syscall.EHOSTUNREACH and syscall.ETIMEDOUT.
	ErrUnreachable = verbs.ErrUnreachable
	// ErrPeerGone is matched when the peer's process has ended without closing the connection, or
	// does not know it any more, as one that was started anew; and when a [Conn] there has failed,
	// or was closed before all was done. It matches syscall.ECONNRESET.
	ErrPeerGone = verbs.ErrPeerGone
	// ErrAddrInUse is matched when a port is taken. It matches syscall.EADDRINUSE.
	ErrAddrInUse = verbs.ErrAddrInUse
	// ErrAddrNotLocal is matched when an address to speak from is none of the
	// device's. It matches syscall.EADDRNOTAVAIL.
	ErrAddrNotLocal = verbs.ErrAddrNotLocal
	// ErrNoLocalGID is matched when no local address fits that of a peer. It
	// matches syscall.ENETUNREACH.
	ErrNoLocalGID = verbs.ErrNoLocalGID
	// ErrMessageTooLong is matched when a message is longer than can be sent. It
	// matches syscall.EMSGSIZE.
	ErrMessageTooLong = verbs.ErrMessageTooLong
	// ErrBusy is matched when something cannot be closed, since others use it.
	ErrBusy = verbs.ErrBusy
	// ErrLimit is matched when as many objects, or bytes, exist as are allowed.
	ErrLimit = verbs.ErrLimit
	// ErrInvalidState is matched when a call does not fit what the object is doing.
	ErrInvalidState = verbs.ErrInvalidState
	// ErrInvalidAttr is matched by every *ArgError.
	ErrInvalidAttr = verbs.ErrInvalidAttr

	// ErrMaybeDone is matched by the error of an operation of a [Conn] that had
	// been handed to the device when it failed, or when the context of the call
	// ended: the peer may have carried it out, wholly or in part, and, as long as
	// the connection lives, may still do so. An error that does not match it says
	// that nothing was sent, so that the operation can be tried again.
	ErrMaybeDone error = access.NewKind("the operation may have been carried out")
)

// argError says which argument, or which field of one, is wrong, and why.
func argError(op, arg, why string) error { return &verbs.ArgError{Op: op, Arg: arg, Why: why} }
