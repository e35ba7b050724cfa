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

// Every function of this package returns errors of these types and kinds, whichever package below
// has failed:
//
//   - *ArgError for an invalid argument, attribute or option, before anything was done; some
//     mem.TableErrors become one;
//   - *OpError for an operation that failed; it wraps one of the kinds below, a *StatusError, a
//     *rdmacm.RejectedError, or the error of a context; transport.EngineError and mem.TableError
//     become one;
//   - *OpenError for a device that cannot be opened;
//   - the error of the context itself from calls that only wait, such as CQ.Wait.
//
// Where package net or the operating system has an error for the same case, errors.Is matches that
// too: net.ErrClosed, os.ErrDeadlineExceeded, syscall.ECONNREFUSED, EHOSTUNREACH, ENETUNREACH,
// ETIMEDOUT, EADDRINUSE, EADDRNOTAVAIL, EPIPE, EMSGSIZE, EBUSY, EINVAL.
var (
	// ErrClosed is the error of every call on a closed device or object, and of calls that wait
	// while it closes. It matches net.ErrClosed.
	ErrClosed = shard.ErrClosed

	// ErrDestroyed says that an object was destroyed. An error that wraps it also matches
	// ErrClosed.
	ErrDestroyed = transport.ErrDestroyed
	// ErrBusy says that an object cannot be destroyed because others use it.
	ErrBusy = transport.ErrBusy
	// ErrLimit says that as many objects, or bytes, exist as are allowed.
	ErrLimit = transport.ErrLimit
	// ErrInvalidAttr matches every *ArgError.
	ErrInvalidAttr = transport.ErrInvalidAttr
	// ErrInvalidState says that a call does not fit what the object is doing.
	ErrInvalidState = transport.ErrInvalidState
	// ErrQueueFull says that a work queue has no room for a request.
	ErrQueueFull = transport.ErrQueueFull
	// ErrInvalidOpcode says that a queue pair's type does not have the operation.
	ErrInvalidOpcode = transport.ErrInvalidOpcode
	// ErrTooManySGE says that a work request has more elements than the queue pair was made for.
	ErrTooManySGE = transport.ErrTooManySGE
	// ErrInlineTooLarge says that a work request has more inline data than the queue pair was made
	// for.
	ErrInlineTooLarge = transport.ErrInlineTooLarge
	// ErrMessageTooLong says that a message is longer than can be sent; an error that wraps it
	// matches syscall.EMSGSIZE.
	ErrMessageTooLong = transport.ErrMessageTooLong

	// ErrNoChannel is the error of CQ.RequestNotify on a CQ without a completion channel.
	ErrNoChannel = errors.New("roce: the CQ has no completion channel")
	// ErrCQOverflow is the error of CQ.Poll and CQ.Wait once the remaining completions have been
	// taken, if later ones were lost because the queue was full. Its queue pairs move to ERR and
	// complete nothing more (IBTA 11.6.3.1).
	ErrCQOverflow = errors.New("roce: the CQ overflowed: create it for all that may be posted at a time")
	// ErrMulticast says that the link or the engine cannot do multicast.
	ErrMulticast = errors.New("roce: multicast is not supported by this link")

	// ErrNoLocalGID says that no local address fits the peer's. It matches syscall.ENETUNREACH.
	ErrNoLocalGID error = access.NewKind("no local address that the peer can be reached from", syscall.ENETUNREACH)
	// ErrAddrNotLocal says that a source address is none of the device's. It matches
	// syscall.EADDRNOTAVAIL.
	ErrAddrNotLocal error = access.NewKind("not an address of this device", syscall.EADDRNOTAVAIL)
	// ErrAddrInUse says that a port is taken. It matches syscall.EADDRINUSE.
	ErrAddrInUse error = access.NewKind("address already in use", syscall.EADDRINUSE)

	// ErrConnRefused says that the host reports RoCE's UDP port as closed, or, in a
	// *rdmacm.RejectedError, that nothing listens at the address. It matches syscall.ECONNREFUSED.
	ErrConnRefused error = access.NewKind("connection refused: nobody listens on the port", syscall.ECONNREFUSED)
	// ErrUnreachable says that the peer does not answer: neither the request for a connection, nor
	// an operation after all its retries. The cause may be the program, the host or the path; they
	// cannot be told apart, so it matches both syscall.EHOSTUNREACH and syscall.ETIMEDOUT.
	ErrUnreachable error = access.NewKind("the peer does not answer", syscall.EHOSTUNREACH, syscall.ETIMEDOUT)
	// ErrPeerClosed says that the peer has closed the connection. It matches syscall.EPIPE.
	ErrPeerClosed error = access.NewKind("the peer has closed the connection", syscall.EPIPE)
	// ErrPeerGone says that the peer's process ended without closing the connection, or no longer
	// knows it; or that a roce.Conn there failed, or was closed before all was done. It matches
	// syscall.ECONNRESET.
	ErrPeerGone error = access.NewKind("the peer's process is gone", syscall.ECONNRESET)
)

// OpenError says why a device could not be opened: Addr, the address concerned; Err; and Hint, what
// to do about it.
type OpenError = link.OpenError

// ArgError names an invalid argument, attribute or option: Op, the call; Arg, the argument; Why,
// with its limits. It matches [ErrInvalidAttr] and syscall.EINVAL.
type ArgError = transport.ArgError

func argError(op, arg, why string) error { return &ArgError{Op: op, Arg: arg, Why: why} }

// AddrError is an error about an address: it is taken, it is none of the device's, or nothing
// answers there.
type AddrError struct {
	Op   string // the call
	Addr netip.AddrPort
	Err  error // such as ErrAddrInUse
}

func (e *AddrError) Error() string {
	return "roce: " + e.Op + " " + e.Addr.String() + ": " + access.Within(e.Err, e.Op, e.Addr)
}
func (e *AddrError) Unwrap() error { return e.Err }

// NoRouteError says that no address of a device leads to a peer. It matches [ErrNoLocalGID],
// [ErrInvalidAttr] and syscall.ENETUNREACH.
type NoRouteError struct {
	Peer  netip.Addr   // the unreachable peer
	Local []netip.Addr // those of the device; nil if there is no device yet
	Err   error        // the kernel's error; nil if it was not asked
}

func (e *NoRouteError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("roce: no route to %v: %v", e.Peer, access.Plain(e.Err))
	}
	want := "IPv6"
	if e.Peer.Is4() {
		want = "IPv4"
	}
	return fmt.Sprintf("roce: no route to %v: the peer has an %s address, and the device %v; open the device with an %s address (Config.Addrs), or name the peer by another of its addresses",
		e.Peer, want, e.Local, want)
}

// Unwrap returns the kernel's error.
func (e *NoRouteError) Unwrap() error { return e.Err }

// Is makes it match its kinds.
func (e *NoRouteError) Is(target error) bool {
	return target == ErrNoLocalGID || target == ErrInvalidAttr || target == syscall.ENETUNREACH
}
