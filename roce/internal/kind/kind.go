// Package kind has the kinds of errors that the packages below roce share. Package verbs
// says what each is for, and the others hand them on.
package kind

import (
	"io/fs"
	"net"
	"slices"
	"syscall"
)

// Kind is a kind of failure that others have a name for, too.
type Kind struct {
	text string
	also []error
}

// New makes a kind, which matches the others.
func New(text string, also ...error) *Kind { return &Kind{text, also} }

func (k *Kind) Error() string { return k.text }

// Is finds the other names.
func (k *Kind) Is(target error) bool { return slices.Contains(k.also, target) }

// The kinds.
var (
	Closed       error = New("roce: closed", net.ErrClosed, fs.ErrClosed)
	Zero         error = New("roce: a zero value, not what the function that makes these has returned", Closed, net.ErrClosed, fs.ErrInvalid)
	NoLocalGID   error = New("no local address that the peer can be reached from", syscall.ENETUNREACH)
	AddrNotLocal error = New("not an address of this device", syscall.EADDRNOTAVAIL)
	AddrInUse    error = New("address already in use", syscall.EADDRINUSE)
	ConnRefused  error = New("connection refused: nobody listens on the port", syscall.ECONNREFUSED)
	Unreachable  error = New("the peer does not answer", syscall.EHOSTUNREACH, syscall.ETIMEDOUT)
	NoProcess    error = New("connection refused: no RoCE process there, the host's UDP port is closed", ConnRefused, syscall.ECONNREFUSED)
	PeerGone     error = New("the peer's process is gone", syscall.ECONNRESET)
	PeerClosed   error = New("the peer has closed the connection", syscall.EPIPE)
)
