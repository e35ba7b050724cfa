package sockio

import (
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
)

// Life records whether a link can be used: it cannot once it has failed or is closed. All methods
// may be called from anywhere.
type Life struct {
	over   atomic.Pointer[error] // nil: it can be used
	closed atomic.Bool
}

// errClosed is the result of Err for a closed link.
var errClosed = link.ErrClosed

// Err returns why the link cannot be used any more, nil if it can: [link.ErrClosed], or the first
// failure.
func (v *Life) Err() error {
	if p := v.over.Load(); p != nil {
		return *p
	}
	return nil
}

// Fail ends the use of the link with an error, and reports whether it is the first.
func (v *Life) Fail(err error) bool { return v.over.CompareAndSwap(nil, &err) }

// Close ends the use of the link, and returns false if it was closed before.
func (v *Life) Close() bool {
	if v.closed.Swap(true) {
		return false
	}
	v.over.Store(&errClosed)
	return true
}

// Dead reports whether an error of a system call says that a descriptor is no longer the link's
// socket, for good: something in this process has closed it (EBADF), put something else in its
// place (ENOTSOCK, ENOTCONN of a stream), or shut it down (EPIPE), or an administrator has
// destroyed it (ss --kill: ECONNABORTED). Other errors concern a packet, the network or memory, and
// pass.
func Dead(errno unix.Errno) bool {
	switch errno {
	case unix.EBADF, unix.ENOTSOCK, unix.ENOTCONN, unix.EPIPE, unix.ECONNABORTED:
		return true
	}
	return false
}

// Passing reports whether an error of a read from a socket says nothing about the socket: there is
// nothing to read, or no memory for it, or the network reports on an earlier datagram or its own
// state (ICMP and ICMPv6 by icmp(7), a filter, an interface that is down).
func Passing(errno unix.Errno) bool {
	switch errno {
	case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.ENOBUFS,
		unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE, unix.EPROTO, unix.ENOPROTOOPT,
		unix.EHOSTDOWN, unix.ENONET, unix.ENETDOWN, unix.EACCES, unix.EPERM:
		return true
	}
	return false
}

// Check returns an error if a descriptor is not a socket any more. It serves links that see packets
// without system calls.
func Check(fd int) unix.Errno {
	_, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if errno, ok := err.(unix.Errno); ok && Dead(errno) {
		return errno
	}
	return 0
}
