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

// Lease is a slot, the same at each of the addresses of a device.
type Lease struct {
	slot int
	sets []*set
	out  outbox
	may  allowance    // only the receiving side has it, as out
	now  func() int64 // see bootTime

	mu       sync.Mutex
	services []map[mad.ServiceID]int // announced at each address, and how often
	closed   bool
	unheld   unheld
}

// word is what the memory file says of a slot. Only who has its lock reads or
// writes it.
type word = uint64

const (
	wordFresh  word = 0 // was never leased
	wordLeased word = 1 // is, or was until its process died
	// Anything else is when the lease ended, of CLOCK_BOOTTIME.
)

// Open leases a slot that is free at all addresses. The error is an [*AddressError] that wraps
// ErrUnsupported, ErrForeign or ErrFull, or the error of the system call: EADDRINUSE if a program
// has an address for itself.
//
// When all slots are leased or rest, it waits for one of those that rest, which takes no
// longer than RestNs. A device that begins has a slot for a moment also if it cannot keep it, so
// that none may look free to another that begins: so it looks again.
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
			pause, limit = restRetry, time.Duration(RestNs)
		}
		if now()-start > int64(limit) {
			return nil, err
		}
		sleep(pause)
	}
}

// OpenSpare leases a slot for a device that has one already and does with fewer. It takes none of
// those below FirstSpare, which are left to devices that have none, and does not wait.
func OpenSpare(addrs []Address) (*Lease, error) { return openFrom(FirstSpare, addrs, bootTime) }

func open(addrs []Address, now func() int64) (*Lease, error) { return openFrom(0, addrs, now) }

// openFrom leases the first slot from one on that is free.
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

// take finds the slot, from the first that is considered on.
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

// try leases slot k if it is free at all addresses. Otherwise nothing of it is kept. Nobody waits
// for a lock. All lock the addresses in one order: two that begin at once are not in each other's
// way at all slots, each with the address that the other one needs.
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

// rests reports whether a slot that is locked is not to be used yet. It reads the clock itself: a
// time from before the lock may be earlier than the end of the lease that had it, which would then
// look like nonsense.
func (s *set) rests(k int, clock func() int64) (bool, error) {
	w, err := s.word(k)
	switch {
	case err != nil:
		return false, err
	case w == wordFresh:
		return false, nil
	case w == wordLeased:
		// Its process has died. That is noticed now; what its sockets hold is memory of the kernel.
		_ = s.silence(k)
		return true, s.setWord(k, word(max(clock(), 2)))
	}
	at, now := int64(w), clock()
	return at <= now && now-at < RestNs, nil
}

// silence has the sockets of a slot drop what comes, and drops what has come.
func (s *set) silence(k int) error {
	if err := s.deafen(k); err != nil {
		return err
	}
	s.drain(k)
	s.drainInbox(k)
	return nil
}

// quiet has the socket for requests drop what comes if no device serves any more. One that begins
// to at the same time has locked its byte, and is seen the second time, or hears after this. It may
// also be over again by then, and have been deaf in vain: so it is looked once more. Only who is
// killed between the two leaves one deaf that has begun meanwhile, until the next one begins.
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

// Slot returns the numbers of the lease.
func (l *Lease) Slot() ib.Slot { return ib.Slot{Index: uint8(l.slot), Bits: Bits} }

// Socket returns the UDP socket of the slot at address i. It drops everything until Hear. The
// Lease closes it.
func (l *Lease) Socket(i int) int { return l.sets[i].udp(l.slot) }

// Hear has the socket receive. Its options are to be set before.
func (l *Lease) Hear(i int) error { return l.sets[i].hear(l.slot) }

// RequestSocket returns the UDP socket at address i that requests come to. Any device may
// read it; HearRequests makes it receive.
func (l *Lease) RequestSocket(i int) int { return l.sets[i].udp(Requests) }

// HearRequests has the socket for requests at address i receive, as long as a device serves.
func (l *Lease) HearRequests(i int) error {
	// In this order: see quiet.
	if err := l.Serve(i); err != nil {
		return err
	}
	return l.sets[i].hear(Requests)
}

// Inbox returns the socket at address i on which others hand packets on, to be read
// with [ReadStrays].
func (l *Lease) Inbox(i int) int {
	in, _ := l.sets[i].inbox(l.slot)
	return in
}

// Close ends the lease. Nobody may use its sockets any more.
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
		_ = s.setWord(l.slot, word(max(l.now(), 2))) // if not, the next one finds it leased, which comes to the same
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
