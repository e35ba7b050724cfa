package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrClosed is returned by a link that was closed; it matches [net.ErrClosed].
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string        { return "link: closed" }
func (closedError) Is(target error) bool { return target == net.ErrClosed }

// ErrUnsupported is wrapped when a link lacks the requested function.
var ErrUnsupported = errors.New("link: not supported by this link")

// ErrServiceInUse is wrapped when another device at the address has announced a service; it
// matches [syscall.EADDRINUSE].
var ErrServiceInUse error = serviceInUseError{}

type serviceInUseError struct{}

func (serviceInUseError) Error() string {
	return "link: another device at this address, perhaps of another process, listens for the service"
}
func (serviceInUseError) Is(target error) bool { return target == syscall.EADDRINUSE }

// OpenError says why a link, or the device on it, could not be opened, and what to do. All packages
// use this type for that.
type OpenError struct {
	Addr netip.Addr // the local address concerned; invalid if none is
	Hint string     // what to do; may be empty
	Err  error
}

func (e *OpenError) Error() string {
	s := "roce: open"
	if e.Addr.IsValid() {
		s += " " + e.Addr.String()
	}
	s = fmt.Sprintf("%s: %v", s, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *OpenError) Unwrap() error { return e.Err }
