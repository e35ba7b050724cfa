package slots

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/internal/unix"
)

var (
	// ErrUnsupported is wrapped when the address cannot be shared here: no abstract Unix sockets,
	// no record locks on memory files, no groups of UDP sockets that share a port, no /proc, or a
	// policy against any of these. A device may still have the address for itself.
	ErrUnsupported = errors.New("the address cannot be shared here")
	// ErrForeign is wrapped when a process of another user, or of a user that cannot be determined,
	// has the name of the address.
	ErrForeign = errors.New("a process of another user has this address")
	// ErrFull is wrapped when all slots are leased or rest.
	ErrFull = errors.New("no slot is free")
	// ErrInUse is returned by Announce when another device has announced the service.
	ErrInUse = errors.New("another device at this address listens for the service")
)

// AddressError says which address an error of Open concerns.
type AddressError struct {
	Addr netip.Addr
	Err  error
}

func (e *AddressError) Error() string { return fmt.Sprintf("%v: %v", e.Addr, e.Err) }
func (e *AddressError) Unwrap() error { return e.Err }

// fullError says why no slot is free.
type fullError struct{ resting int }

func (e *fullError) Error() string {
	return fmt.Sprintf("all %d devices that an address can have are there, or ended less than %d s ago (%d of them)",
		Count, restNs/1e9, e.resting)
}

// Hint says what to do about it.
func (e *fullError) Hint() string {
	return "give some of the programs another address (127.0.0.1, 127.0.0.2, ...): each has as many of its own"
}

// Unwrap returns EADDRINUSE, too: to a program that opens a device the address is taken.
func (e *fullError) Unwrap() []error { return []error{ErrFull, unix.EADDRINUSE} }

func unsupported(what string, err error) error {
	if tooFew(err) {
		err = &filesError{err}
	}
	return fmt.Errorf("%w: %s: %w", ErrUnsupported, what, err)
}

// roomFor returns EMFILE if this process's limit is below n descriptors, however many it has open
// now.
func roomFor(n int) error {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < uint64(n) {
		return unix.EMFILE
	}
	return nil
}

func tooFew(err error) bool { return errors.Is(err, unix.EMFILE) }

// filesError says that the process may not open as many descriptors as an address needs.
type filesError struct{ err error }

func (e *filesError) Error() string {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return fmt.Sprintf("%v: a device takes %d descriptors at an address, and this process may have %d open in all: raise the limit "+
		"(ulimit -n, LimitNOFILE= of a systemd unit)", e.err, needFDs, limit.Cur)
}

func (e *filesError) Unwrap() error { return e.err }
