package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport"
)

// The vocabulary of errors. Every function of this package returns errors of
// these types and kinds, whichever package below has failed:
//
//   - *ArgError for an argument, an attribute or an option that cannot be, before
//     anything was done; parts of mem.TableError become that;
//   - *OpError for an operation that failed, which wraps one of the kinds below,
//     a *StatusError, a *rdmacm.RejectedError, or the error of a context;
//     transport.EngineError and mem.TableError become that;
//   - *OpenError for a device that cannot be opened;
//   - the error of the context itself from calls that only wait, such as CQ.Wait.
//
// Where package net or the operating system has an error for the same case,
// errors.Is finds that too: net.ErrClosed, os.ErrDeadlineExceeded,
// syscall.ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, EADDRINUSE,
// EADDRNOTAVAIL, EPIPE, EMSGSIZE, EBUSY, EINVAL.
var (
	// ErrClosed is returned by every call on a closed device or object, and by
	// calls that wait while it closes. It matches net.ErrClosed.
	ErrClosed = shard.ErrClosed

	// ErrDestroyed is wrapped by calls on an object that was destroyed. Such an
	// error matches ErrClosed, too.
	ErrDestroyed = transport.ErrDestroyed
	// ErrBusy is wrapped when an object cannot be destroyed, since others use it.
	ErrBusy = transport.ErrBusy
	// ErrLimit is wrapped when as many objects, or bytes, exist as are allowed.
	ErrLimit = transport.ErrLimit
	// ErrInvalidAttr is matched by every *ArgError.
	ErrInvalidAttr = transport.ErrInvalidAttr
	// ErrInvalidState is wrapped when a call does not fit what the object is doing.
	ErrInvalidState = transport.ErrInvalidState
	// ErrQueueFull is wrapped when a work queue has no room for a request.
	ErrQueueFull = transport.ErrQueueFull
	// ErrInvalidOpcode is wrapped when a queue pair's type does not have the operation.
	ErrInvalidOpcode = transport.ErrInvalidOpcode
	// ErrTooManySGE is wrapped when a work request has more elements than the queue pair was made
	// for.
	ErrTooManySGE = transport.ErrTooManySGE
	// ErrInlineTooLarge is wrapped when a work request has more inline data than the queue pair
	// was made for.
	ErrInlineTooLarge = transport.ErrInlineTooLarge
	// ErrMessageTooLong is wrapped when a message is longer than can be sent; such an error
	// matches syscall.EMSGSIZE.
	ErrMessageTooLong = transport.ErrMessageTooLong

	// ErrNoChannel is returned by CQ.RequestNotify on a CQ without completion
	// channel.
	ErrNoChannel = errors.New("roce: the CQ has no completion channel")
	// ErrCQOverflow is returned by CQ.Poll and CQ.Wait after the remaining completions have
	// been taken, if later ones were lost because the queue was full. Its queue pairs move to
	// ERR and complete nothing more (IBTA 11.6.3.1).
	ErrCQOverflow = errors.New("roce: the CQ overflowed: create it for all that may be posted at a time")
	// ErrMulticast is wrapped when the link or the engine cannot do multicast.
	ErrMulticast = errors.New("roce: multicast is not supported by this link")

	// ErrNoLocalGID is matched when no local address fits that of a peer. It
	// matches syscall.ENETUNREACH.
	ErrNoLocalGID error = access.NewKind("no local address that the peer can be reached from", syscall.ENETUNREACH)
	// ErrAddrNotLocal is wrapped when an address to speak from is none of the
	// device's. It matches syscall.EADDRNOTAVAIL.
	ErrAddrNotLocal error = access.NewKind("not an address of this device", syscall.EADDRNOTAVAIL)
	// ErrAddrInUse is wrapped when a port is taken. It matches syscall.EADDRINUSE.
	ErrAddrInUse error = access.NewKind("address already in use", syscall.EADDRINUSE)

	// ErrConnRefused is matched when the host says that nothing there has the UDP port of RoCE, and
	// by a *rdmacm.RejectedError when nobody listens. It matches syscall.ECONNREFUSED.
	ErrConnRefused error = access.NewKind("connection refused: nobody listens on the port", syscall.ECONNREFUSED)
	// ErrUnreachable is matched when the peer does not answer: neither the
	// request for a connection, nor an operation after all its retries. That may
	// be the program, the host or the way to it, which cannot be told apart, so
	// that it matches both syscall.EHOSTUNREACH and syscall.ETIMEDOUT.
	ErrUnreachable error = access.NewKind("the peer does not answer", syscall.EHOSTUNREACH, syscall.ETIMEDOUT)
	// ErrPeerClosed is matched when the peer has closed the connection. It
	// matches syscall.EPIPE.
	ErrPeerClosed error = access.NewKind("the peer has closed the connection", syscall.EPIPE)
	// ErrPeerGone is matched when the peer's process has ended without closing the connection, or
	// does not know it any more; and when a roce.Conn there has failed, or was closed before all
	// was done. It matches syscall.ECONNRESET.
	ErrPeerGone error = access.NewKind("the peer's process is gone", syscall.ECONNRESET)
)

// OpenError says why a device could not be opened: Addr, the address concerned;
// Err; and Hint, what to do.
type OpenError = link.OpenError

// ArgError says which argument of a call, or which attribute or option, is
// wrong: Op, the call; Arg, the argument; Why, with its limits. It matches
// [ErrInvalidAttr] and syscall.EINVAL.
type ArgError = transport.ArgError

func argError(op, arg, why string) error { return &ArgError{Op: op, Arg: arg, Why: why} }

// AddrError is an error about an address: it is taken, none of the device's, or nobody answers
// there.
type AddrError struct {
	Op   string // the call
	Addr netip.AddrPort
	Err  error // such as ErrAddrInUse
}

func (e *AddrError) Error() string {
	return "roce: " + e.Op + " " + e.Addr.String() + ": " + access.Plain(e.Err)
}
func (e *AddrError) Unwrap() error { return e.Err }

// NoRouteError says that a device has no address from which a peer could be
// reached. It matches [ErrNoLocalGID], [ErrInvalidAttr] and
// syscall.ENETUNREACH.
type NoRouteError struct {
	Peer  netip.Addr   // who cannot be reached
	Local []netip.Addr // those of the device; nil if there is no device yet
	Err   error        // what the kernel said; nil if it was not asked
}

func (e *NoRouteError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("roce: no route to %v: %v", e.Peer, access.Plain(e.Err))
	}
	want := "IPv6"
	if e.Peer.Is4() {
		want = "IPv4"
	}
	return fmt.Sprintf("roce: no local address to reach %v from: it is an %s address, and the device has %v; open the device with an %s address (Config.Addrs), or name the peer by another of its addresses",
		e.Peer, want, e.Local, want)
}

// Unwrap returns what the kernel said.
func (e *NoRouteError) Unwrap() error { return e.Err }

// Is adds the kinds that it is of.
func (e *NoRouteError) Is(target error) bool {
	return target == ErrNoLocalGID || target == ErrInvalidAttr || target == syscall.ENETUNREACH
}
