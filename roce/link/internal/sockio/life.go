package sockio

import (
	"sync/atomic"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
)

// Life is whether a link can be used: not any more when it has failed or is closed. All methods may
// be called from anywhere.
type Life struct {
	over   atomic.Pointer[error] // nil: it can
	closed atomic.Bool
}

// errClosed is what Err returns of a link that is closed.
var errClosed = link.ErrClosed

// Err returns why the link cannot be used any more, nil if it can: [link.ErrClosed], or what it
// failed with first.
func (v *Life) Err() error {
	if p := v.over.Load(); p != nil {
		return *p
	}
	return nil
}

// Fail ends the use of the link with an error, and reports whether that is the first.
func (v *Life) Fail(err error) bool { return v.over.CompareAndSwap(nil, &err) }

// Close ends the use of the link, and reports whether it was not closed before.
func (v *Life) Close() bool {
	if v.closed.Swap(true) {
		return false
	}
	v.over.Store(&errClosed)
	return true
}

// Dead reports whether an error of a system call says that a descriptor is not the link's socket
// any more and will not be again: something in this process has closed it (EBADF), put something
// else in its place (ENOTSOCK, ENOTCONN of a stream), or shut it down (EPIPE), or an administrator
// has destroyed it (ss --kill: ECONNABORTED). All else says something of a packet, of the network
// or of memory, and passes.
func Dead(errno unix.Errno) bool {
	switch errno {
	case unix.EBADF, unix.ENOTSOCK, unix.ENOTCONN, unix.EPIPE, unix.ECONNABORTED:
		return true
	}
	return false
}

// Passing reports whether an error of a read from a socket says nothing about the socket: there is
// nothing to read, there is no memory to read it into, or it is what the network has said about an
// earlier datagram or its own state (ICMP and ICMPv6 by icmp(7), a filter, an interface that is
// down).
func Passing(errno unix.Errno) bool {
	switch errno {
	case unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.ENOBUFS,
		unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE, unix.EPROTO, unix.ENOPROTOOPT,
		unix.EHOSTDOWN, unix.ENONET, unix.ENETDOWN, unix.EACCES, unix.EPERM:
		return true
	}
	return false
}

// Check returns an error if a descriptor is not a socket any more. It is for links that see packets
// without system calls.
func Check(fd int) unix.Errno {
	_, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if errno, ok := err.(unix.Errno); ok && Dead(errno) {
		return errno
	}
	return 0
}
