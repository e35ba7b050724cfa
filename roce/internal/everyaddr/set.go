package everyaddr

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// DeviceAt returns the device that the process has for one address alone, and opens it if there is
// none. Package roce sets it.
var DeviceAt func(a netip.Addr) (*verbs.Device, error)

// Actions are what a listener does about an address.
type Actions[P any] struct {
	// Serves says whether an address is one of the listener's; nil is all.
	Serves func(a netip.Addr) bool
	// Begin listens at an address, on a device of it alone. It returns the port, which is 0 in at
	// if any will do.
	Begin func(d *verbs.Device, at netip.AddrPort) (P, uint16, error)
	// End ends a part whose device is closed.
	End func(p P)
	// Failed is told of an address that came and cannot be listened at.
	Failed func(a netip.Addr, err error)
}

// Set is the parts of a listener.
type Set[P any] struct {
	do    Actions[P]
	watch watcher
	port  uint16 // of all parts; 0 if none has begun yet

	mu    sync.Mutex // not held while actions run
	parts []part[P]  // in the order of their addresses
}

type part[P any] struct {
	addr netip.Addr
	d    *verbs.Device
	p    P
}

// New makes a Set without parts.
func New[P any](do Actions[P]) *Set[P] { return &Set[P]{do: do} }

// Open begins to listen at all addresses that there are, and returns the unspecified one that
// stands for them, and the port. If addr has no port, it takes one that is free at the first
// address. One that cannot be listened at is an error, unless it has gone meanwhile; the parts that
// have begun end then.
func (s *Set[P]) Open(addr netip.AddrPort) (netip.AddrPort, error) {
	s.port = addr.Port()
	s.watch.open()
	if err := s.begin(); err != nil {
		err = errors.Join(err, s.watch.close())
		for _, p := range s.Parts() {
			s.do.End(p)
		}
		return netip.AddrPort{}, err
	}
	any := addr.Addr()
	switch {
	case any.IsValid():
	case slices.ContainsFunc(s.list(), func(x part[P]) bool { return x.addr.Is4() }):
		any = netip.IPv4Unspecified()
	default:
		any = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(any, s.port), nil
}

// portTries is how many ports are tried that are free at the first address but not at all of them.
const portTries = 16

// FindPort has open try to listen at addr, again if that has no port and the one found was not
// free everywhere.
func FindPort(addr netip.AddrPort, open func(netip.AddrPort) error) (err error) {
	for try := 0; ; try++ {
		if err = open(addr); addr.Port() != 0 || try == portTries || !errors.Is(err, verbs.ErrAddrInUse) {
			return err
		}
	}
}

// Follow follows the addresses that come and go after Open.
func (s *Set[P]) Follow() { s.watch.start(s.update) }

// begin listens at the addresses that there are.
func (s *Set[P]) begin() error {
	here, err := s.watch.addrs()
	if err != nil {
		return &verbs.OpenError{Err: err}
	}
	for _, a := range here {
		if err = s.add(a); err != nil {
			return err
		}
	}
	if len(s.parts) == 0 {
		return &verbs.OpenError{Err: verbs.ErrAddrNotLocal, Hint: "the host has no address to listen at"}
	}
	return nil
}

// add listens at an address. One that has gone is no error.
func (s *Set[P]) add(a netip.Addr) error {
	if s.do.Serves != nil && !s.do.Serves(a) {
		return nil
	}
	d, err := DeviceAt(a)
	if err != nil {
		if s.watch.gone(a) {
			return nil
		}
		return err
	}
	p, port, err := s.do.Begin(d, netip.AddrPortFrom(a, s.port))
	if err != nil {
		return err
	}
	s.port = port
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, part[P]{a, d, p})
	slices.SortFunc(s.parts, func(x, y part[P]) int { return x.addr.Compare(y.addr) })
	return nil
}

// update brings the parts to what holds now. What was told of meanwhile does not matter.
func (s *Set[P]) update() {
	here, err := s.watch.addrs()
	if err != nil {
		return // as before; the next change asks again
	}
	for _, x := range s.list() {
		switch {
		case !slices.Contains(here, x.addr):
			if !s.watch.gone(x.addr) {
				continue // its interface is switched off, which is no reason to end connections
			}
			access.EndDevice(x.d, Gone(x.addr))
		case !IsGone(access.Shard(x.d).ClosedErr()):
			continue
		}
		// The address is gone, or was, when another listener looked, and is back.
		s.remove(x.addr)
		s.do.End(x.p)
	}
	for _, a := range here {
		if slices.ContainsFunc(s.list(), func(x part[P]) bool { return x.addr == a }) {
			continue
		}
		if err := s.add(a); err != nil && !s.watch.gone(a) {
			s.do.Failed(a, err)
		}
	}
}

func (s *Set[P]) remove(a netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.DeleteFunc(s.parts, func(x part[P]) bool { return x.addr == a })
}

func (s *Set[P]) list() []part[P] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parts)
}

// Parts returns the parts, in the order of their addresses.
func (s *Set[P]) Parts() []P {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]P, len(s.parts))
	for i, x := range s.parts {
		out[i] = x.p
	}
	return out
}

// Close ends following: no action is called any more. The parts are left to the caller.
func (s *Set[P]) Close() error { return s.watch.close() }

// errGone is matched by why a device was closed whose address is gone.
var errGone error = errors.New("the address is gone from this host")

// IsGone reports whether a device is closed since its address is gone.
func IsGone(err error) bool { return errors.Is(err, errGone) }

// Gone says that an address is gone. It matches verbs.ErrAddrNotLocal, and so
// syscall.EADDRNOTAVAIL.
func Gone(a netip.Addr) error { return &goneError{a} }

type goneError struct{ addr netip.Addr }

func (e *goneError) Error() string {
	return fmt.Sprintf("the address %v is gone from this host", e.addr)
}
func (e *goneError) Unwrap() []error { return []error{errGone, verbs.ErrAddrNotLocal} }
