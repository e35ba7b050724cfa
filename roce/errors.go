package roce

import (
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// The errors of this package, and of those beneath, are of a few types. errors.As finds them in the
// error of any call.
type (
	// OpError is an operation that failed: Op, the addresses Local and Remote as far as they are
	// known, and the cause, Err. It is a net.Error.
	OpError = verbs.OpError
	// ArgError names an invalid argument or option: Op, the call; Arg, the argument; Why, with its
	// limits. It matches syscall.EINVAL.
	ArgError = verbs.ArgError
	// OpenError says why a device could not be opened: Addr, the address concerned; Err; and Hint,
	// what to do about it.
	OpenError = verbs.OpenError
	// StatusError is an operation that was carried out and failed: WC has the status of the work
	// completion and the vendor's error.
	StatusError = verbs.StatusError
	// RejectedError says that the peer refused the connection: Reason, Info, PrivateData, and
	// Remote, the address that refused.
	RejectedError = rdmacm.RejectedError
	// NoRouteError says that no local address leads to a peer: Peer; Local, the local addresses;
	// and Err, the kernel's error.
	NoRouteError = verbs.NoRouteError
)

// The kinds of errors, for errors.Is. Where package net or the operating system has an error for
// the same case, errors.Is matches that too: net.ErrClosed, os.ErrDeadlineExceeded,
// syscall.ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EADDRINUSE, EADDRNOTAVAIL, EPIPE,
// EMSGSIZE, EBUSY, EINVAL.
var (
	// ErrClosed matches errors of calls on something that this side has closed, including calls
	// that were waiting. It matches net.ErrClosed.
	ErrClosed = verbs.ErrClosed
	// ErrPeerClosed says that the peer closed the connection in order. It matches syscall.EPIPE.
	ErrPeerClosed = verbs.ErrPeerClosed
	// ErrConnRefused says that the host reports RoCE's UDP port as closed, or, in a *RejectedError,
	// that nothing listens at the address. It matches syscall.ECONNREFUSED.
	ErrConnRefused = verbs.ErrConnRefused
	// ErrUnreachable says that the peer does not answer: neither the request for a connection, nor
	// an operation after all its retries. The cause may be the program, the host or the path; they
	// cannot be told apart, so it matches both syscall.EHOSTUNREACH and syscall.ETIMEDOUT.
	ErrUnreachable = verbs.ErrUnreachable
	// ErrPeerGone says that the peer's process ended without closing the connection, or no longer
	// knows it because it was restarted; or that a [Conn] there failed, or was closed before all
	// was done. It matches syscall.ECONNRESET.
	ErrPeerGone = verbs.ErrPeerGone
	// ErrAddrInUse says that a port is taken. It matches syscall.EADDRINUSE.
	ErrAddrInUse = verbs.ErrAddrInUse
	// ErrAddrNotLocal says that a source address is none of the device's. It matches
	// syscall.EADDRNOTAVAIL.
	ErrAddrNotLocal = verbs.ErrAddrNotLocal
	// ErrNoLocalGID says that no local address fits the peer's. It matches syscall.ENETUNREACH.
	ErrNoLocalGID = verbs.ErrNoLocalGID
	// ErrMessageTooLong says that a message is longer than can be sent. It matches
	// syscall.EMSGSIZE.
	ErrMessageTooLong = verbs.ErrMessageTooLong
	// ErrBusy says that something cannot be closed because others use it.
	ErrBusy = verbs.ErrBusy
	// ErrLimit says that as many objects, or bytes, exist as are allowed.
	ErrLimit = verbs.ErrLimit
	// ErrInvalidState says that a call does not fit what the object is doing.
	ErrInvalidState = verbs.ErrInvalidState
	// ErrInvalidAttr matches every *ArgError.
	ErrInvalidAttr = verbs.ErrInvalidAttr

	// ErrMaybeDone says that an operation of a [Conn] had been handed to the device when it failed,
	// or when the context of the call ended. The peer may have carried it out, wholly or in part,
	// and may still do so while the connection lives. An error that does not match it says that
	// nothing was sent, so the operation can be tried again.
	ErrMaybeDone error = access.NewKind("the operation may have been carried out")
)

// argError says which argument, or which field of one, is wrong, and why.
func argError(op, arg, why string) error { return &verbs.ArgError{Op: op, Arg: arg, Why: why} }
