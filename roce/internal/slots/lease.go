package slots

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
)

// Lease is a lease of one slot, the same at each of the addresses of a device.
type Lease struct {
	slot int
	sets []*set
	out  outbox
	may  allowance    // only the receiving side uses it, as out
	now  func() int64 // see bootTime

	mu       sync.Mutex
	services []map[mad.ServiceID]int // announced at each address, and how often
	closed   bool
	unheld   unheld
}

// word is what the memory file says of a slot. Only the holder of the slot's lock reads or writes
// it.
type word = uint64

const (
	wordFresh  word = 0 // was never leased
	wordLeased word = 1 // is, or was until its process died
	// Any other value is the time when the lease ended, of CLOCK_BOOTTIME.
)

// Open leases a slot that is free at all addresses. The error is an [*AddressError] that wraps
// ErrUnsupported, ErrForeign or ErrFull, or the error of the system call: EADDRINUSE if a program
// has an address for itself.
//
// When all slots are leased or rest, Open waits for one of the resting slots, which takes no longer
// than restNs. Devices that start at the same time briefly lock slots that they cannot keep, so a
// slot may seem taken: Open then tries again.
func Open(addrs []Address) (*Lease, error) { return openPatiently(addrs, bootTime, time.Sleep) }

func openPatiently(addrs []Address, now func() int64, sleep func(time.Duration)) (*Lease, error) {
	for start := now(); ; {
		l, err := open(addrs, now)
		var full *fullError
		if !errors.As(err, &full) {
			return l, err
		}
		pause, limit := contendRetry, contendTime
		if full.resting > 0 {
			pause, limit = restRetry, time.Duration(restNs)
		}
		if now()-start > int64(limit) {
			return nil, err
		}
		sleep(pause)
	}
}

// OpenSpare leases a further slot for a device that already has one and can do with fewer. It takes
// no slot below FirstSpare, as those are left to devices that have none, and it does not wait.
func OpenSpare(addrs []Address) (*Lease, error) { return openFrom(FirstSpare, addrs, bootTime) }

func open(addrs []Address, now func() int64) (*Lease, error) { return openFrom(0, addrs, now) }

// openFrom leases the lowest free slot at or above first.
func openFrom(first int, addrs []Address, now func() int64) (*Lease, error) {
	l := &Lease{slot: -1, now: now}
	for _, a := range addrs {
		s, err := meet(a)
		if err != nil {
			l.closeSets()
			return nil, &AddressError{a.Addr, err}
		}
		l.sets = append(l.sets, s)
		l.services = append(l.services, map[mad.ServiceID]int{})
	}
	if err := l.take(first); err != nil {
		l.closeSets()
		return nil, &AddressError{addrs[0].Addr, err}
	}
	l.countUnheld()
	return l, nil
}

func bootTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return t.Nano()
}

// take leases the lowest free slot at or above first.
func (l *Lease) take(first int) error {
	resting := 0
	for k := first; k < Count; k++ {
		free, rests, err := l.try(k)
		switch {
		case err != nil:
			return unsupported("record lock on a memory file", err)
		case free:
			l.slot = k
			return nil
		case rests:
			resting++
		}
	}
	return &fullError{resting}
}

// try leases slot k if it is free at all addresses; otherwise it keeps no lock. It never waits for
// a lock. All devices lock the addresses in one order. Otherwise two that start at once could block
// each other at every slot, each holding the address that the other one needs.
func (l *Lease) try(k int) (free, rests bool, err error) {
	turn := slices.SortedStableFunc(slices.Values(l.sets), func(a, b *set) int {
		return cmp.Or(a.address.Addr.Compare(b.address.Addr), cmp.Compare(a.address.Scope, b.address.Scope))
	})
	n := 0
	defer func() {
		if !free {
			for _, s := range turn[:n] {
				s.unlock(int64(k), 1)
			}
		}
	}()
	for _, s := range turn {
		ok, err := s.lock(int64(k), 1)
		if err != nil || !ok {
			return false, false, err
		}
		n++
		if rests, err = s.rests(k, l.now); err != nil || rests {
			return false, rests, err
		}
	}
	for _, s := range l.sets {
		if err := s.setWord(k, wordLeased); err != nil {
			return false, false, err
		}
		if err := s.silence(k); err != nil {
			return false, false, err
		}
	}
	return true, false, nil
}

// rests reports whether a slot that the caller has locked must not be used yet. It reads the clock
// itself: a time from before the lock may be earlier than the end of the former lease, which would
// then look like nonsense.
func (s *set) rests(k int, clock func() int64) (bool, error) {
	w, err := s.word(k)
	switch {
	case err != nil:
		return false, err
	case w == wordFresh:
		return false, nil
	case w == wordLeased:
		// Its process has died, which is noticed only now. The packets in its sockets take kernel
		// memory.
		_ = s.silence(k)
		return true, s.setWord(k, word(max(clock(), 2)))
	}
	at, now := int64(w), clock()
	return at <= now && now-at < restNs, nil
}

// silence makes the sockets of a slot drop what arrives, and drops what has arrived.
func (s *set) silence(k int) error {
	if err := s.deafen(k); err != nil {
		return err
	}
	s.drain(k)
	s.drainInbox(k)
	return nil
}

// quiet makes the socket for requests drop what arrives, if no device serves any more. A device may
// begin to serve at the same time. It has then locked its byte, so the second look sees it, or it
// calls hear after this. That device may end again meanwhile, so quiet repeats both steps. If a
// process is killed between deafen and hear, a device that has begun meanwhile stays deaf until the
// next one begins.
func (s *set) quiet() {
	serving := func() bool {
		_, _, ok := s.locked(servingAt, Count)
		return ok
	}
	for range Count {
		if serving() || s.deafen(Requests) != nil {
			return
		}
		s.drain(Requests)
		if !serving() {
			return
		}
		_ = s.hear(Requests)
	}
}

func (s *set) word(k int) (word, error) { return s.read(int64(k * wordBytes)) }

func (s *set) setWord(k int, w word) error { return s.write(int64(k*wordBytes), w) }

// Slot returns the slot of the lease, which its numbers begin with.
func (l *Lease) Slot() ib.Slot { return ib.Slot{Index: uint8(l.slot), Bits: Bits} }

// Socket returns the UDP socket of the slot at address i. It drops everything until Hear. The Lease
// closes it.
func (l *Lease) Socket(i int) int { return l.sets[i].udp(l.slot) }

// Hear makes the socket at address i receive. Set its options first.
func (l *Lease) Hear(i int) error { return l.sets[i].hear(l.slot) }

// RequestSocket returns the UDP socket at address i for requests. Any device may read it;
// HearRequests makes it receive.
func (l *Lease) RequestSocket(i int) int { return l.sets[i].udp(Requests) }

// HearRequests makes the socket for requests at address i receive, as long as a device serves.
func (l *Lease) HearRequests(i int) error {
	// The order matters: see quiet.
	if err := l.Serve(i); err != nil {
		return err
	}
	return l.sets[i].hear(Requests)
}

// Inbox returns the socket at address i to which other devices hand packets on. Decode its messages
// with [ParseStrays].
func (l *Lease) Inbox(i int) int {
	in, _ := l.sets[i].inbox(l.slot)
	return in
}

// Close ends the lease. Its sockets must not be used any more.
func (l *Lease) Close() {
	l.mu.Lock()
	done := l.closed
	l.closed = true
	l.mu.Unlock()
	if done {
		return
	}
	for _, s := range l.sets {
		_ = s.silence(l.slot) // it has worked before
		s.unlock(servingAt+int64(l.slot), 1)
		s.quiet()
		// If this fails, the next holder finds it leased, which has the same effect.
		_ = s.setWord(l.slot, word(max(l.now(), 2)))
		s.unlock(0, 0)
		s.leave()
	}
	l.closeSets()
}

func (l *Lease) closeSets() {
	for _, s := range l.sets {
		s.close()
	}
}
