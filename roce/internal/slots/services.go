package slots

import (
	"errors"
	"net/netip"

	"github.com/goroce/goroce/ib/mad"
)

// Announce directs requests for a service at address i to this device. It returns ErrInUse if
// another device has announced the service. Announcements are counted.
func (l *Lease) Announce(i int, s mad.ServiceID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.New("closed")
	}
	if l.services[i][s] == 0 {
		// The length identifies the device. All locks of a service begin at the same byte, so only
		// one exists at a time.
		ok, err := l.sets[i].lock(offsetOf(s), int64(1+l.slot))
		if err != nil {
			return err
		}
		if !ok {
			return ErrInUse
		}
	}
	l.services[i][s]++
	return nil
}

// Withdraw undoes one Announce.
func (l *Lease) Withdraw(i int, s mad.ServiceID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.services[i][s] == 0 {
		return
	}
	if l.services[i][s]--; l.services[i][s] == 0 {
		delete(l.services[i], s)
		l.sets[i].unlock(offsetOf(s), serviceSpan)
	}
}

// AnnounceAt announces a service at those of the lease's addresses that local stands for: all of
// them if local is unspecified or invalid. If it fails at one address, the service is announced at
// none.
func (l *Lease) AnnounceAt(s mad.ServiceID, addrs []netip.Addr, local netip.Addr) error {
	for i, a := range addrs {
		if !standsFor(local, a) {
			continue
		}
		if err := l.Announce(i, s); err != nil {
			l.WithdrawAt(s, addrs[:i], local)
			return err
		}
	}
	return nil
}

// WithdrawAt undoes one AnnounceAt.
func (l *Lease) WithdrawAt(s mad.ServiceID, addrs []netip.Addr, local netip.Addr) {
	for i, a := range addrs {
		if standsFor(local, a) {
			l.Withdraw(i, s)
		}
	}
}

func standsFor(local, addr netip.Addr) bool {
	return !local.IsValid() || local.IsUnspecified() || local.Unmap().WithZone("") == addr
}

// Owner returns the slot whose device has announced a service at address i.
func (l *Lease) Owner(i int, s mad.ServiceID) (slot int, ok bool) {
	l.mu.Lock()
	mine := l.services[i][s] > 0
	l.mu.Unlock()
	if mine {
		return l.slot, true
	}
	at := offsetOf(s)
	start, length, ok := l.sets[i].locked(at, 1)
	if !ok || start != at || length < 1 || length > Count {
		return 0, false
	}
	return int(length - 1), true
}

// Serve marks this device as taking requests at address i.
func (l *Lease) Serve(i int) error {
	_, err := l.sets[i].lock(servingAt+int64(l.slot), 1)
	return err
}

// Serves reports whether the device that has a slot at address i takes requests. If it does not, no
// device can know of a connection with a number of the slot.
func (l *Lease) Serves(i, slot int) bool {
	_, _, ok := l.sets[i].locked(servingAt+int64(slot), 1)
	return ok
}

// Refuses reports whether this device must refuse the requests at address i that are for no device.
// All devices that take requests there see them; the one with the lowest slot refuses.
func (l *Lease) Refuses(i int) bool {
	_, _, below := l.sets[i].locked(servingAt, int64(l.slot))
	return l.slot == 0 || !below
}

// Held reports whether a device has a slot at address i.
func (l *Lease) Held(i, slot int) bool {
	if slot == l.slot {
		return true
	}
	_, _, ok := l.sets[i].locked(int64(slot), 1)
	return ok
}

// offsetOf returns the offset at which a service is locked. A service has 64 bits and an offset 63,
// less the length of a lock; two services collide as rarely as two random numbers of 55 bits.
func offsetOf(s mad.ServiceID) int64 {
	x := uint64(s) + 0x9E3779B97F4A7C15 // splitmix64
	return serviceAt + int64(mix(x)>>9)*serviceSpan
}
