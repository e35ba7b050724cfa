package slots

import (
	"errors"
	"fmt"
	"net/netip"
)

var (
	// ErrUnsupported is wrapped when the address cannot be shared here: no abstract Unix
	// sockets, no record locks on memory files, no /proc, or a policy against any of it. A device
	// may still have the address for itself.
	ErrUnsupported = errors.New("the address cannot be shared here")
	// ErrForeign is wrapped when another user's process has the name of the address.
	ErrForeign = errors.New("a process of another user has this address")
	// ErrFull is wrapped when all slots are leased or rest.
	ErrFull = errors.New("no slot is free")
	// ErrInUse is returned by Announce when another device has announced the service.
	ErrInUse = errors.New("another device at this address listens for the service")
)

// AddressError says which address an error of Open is about.
type AddressError struct {
	Addr netip.Addr
	Err  error
}

func (e *AddressError) Error() string { return fmt.Sprintf("%v: %v", e.Addr, e.Err) }
func (e *AddressError) Unwrap() error { return e.Err }

// fullError says why there is no slot.
type fullError struct{ resting int }

func (e *fullError) Error() string {
	return fmt.Sprintf("all %d devices that an address can have are there, or ended less than %d s ago (%d of them)",
		Count, RestNs/1e9, e.resting)
}

func (e *fullError) Unwrap() error { return ErrFull }

func unsupported(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnsupported, what, err)
}
