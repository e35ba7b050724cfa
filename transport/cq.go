package transport

import (
	"fmt"
	"sync/atomic"
)

// CQ is a completion queue: a ring with one producer at a time, an engine, and one consumer at a
// time, which may poll and arm while the engine runs. Its home is the engine that made it; after
// Share other engines can complete there as well.
//
// A CQ that overflows is dead (IBTA 11.6.3.1, CQ error): it raises EventCQError once, keeps its
// completions for Poll, and takes no more. Every QP whose completion it refuses goes to ERR.
type CQ struct {
	e        *Engine // the home
	userData any
	shared
	over    atomic.Uint32 // overflowed, destroyed: no more completions
	foreign bool          // made by CreateRingCQ

	// Producer side, under the lock of the home, or the CQ's own if it is shared. The consumer may
	// run on another core, so each side writes to cache lines of its own.
	_        [64]byte
	prod     *cqRing
	ring     *ring  // instead of prod and cons, if foreign; nil once given back
	tail     uint64 // completions ever pushed
	limit    uint64 // tail up to which there was room, by the head last seen
	made     uint64 // tail when the ring was made
	capacity int
	events   uint64 // EventCompletion raised, for tests and statistics
	pending  eventSet
	armed    atomic.Uint32 // armNone, armSolicited or armAny
	told     atomic.Uint64 // tail at the last EventCompletion

	// Consumer side.
	_    [64]byte
	head atomic.Uint64 // completions ever polled
	cons *cqRing
	_    [48]byte
}

// Why a CQ takes no more completions.
const (
	cqOverflowed = 1 << iota
	cqDestroyed
)

// What an armed CQ waits for.
const (
	armNone uint32 = iota
	armSolicited
	armAny
)

// cqRing holds the completions with sequence numbers below end; later ones are in next, which
// replaces it. Sequence numbers index the slots, so head and tail keep counting across a resize.
type cqRing struct {
	slots []WC // length is a power of two
	tail  atomic.Uint64
	end   atomic.Uint64 // noEnd until the ring is replaced
	next  *cqRing       // published by end
	_     [16]byte      // fills the cache line, so that CQs of two engines share none
}

const noEnd = ^uint64(0)

// ringSize returns the number of slots of a ring for n completions.
func ringSize(n int) int {
	size := 1
	for size < n {
		size *= 2
	}
	return size
}

func newCQRing(size int) *cqRing {
	r := &cqRing{slots: make([]WC, size)}
	r.end.Store(noEnd)
	return r
}

func checkCQE(op string, n int) error {
	if n < 1 || n > MaxCQE {
		return &ArgError{Op: op, Arg: "cqe", Why: fmt.Sprintf("%d is not in 1..%d", n, MaxCQE)}
	}
	return nil
}

func (e *Engine) checkNewCQ(op string, n int) error {
	if e.cqs >= MaxObjects {
		return opErr(op, ErrLimit, "%d exist", e.cqs)
	}
	return checkCQE(op, n)
}

// CreateCQ makes a CQ for n completions. Its memory grows up to that as completions wait.
func (e *Engine) CreateCQ(n int, userData any) (*CQ, error) {
	if err := e.checkNewCQ("create CQ", n); err != nil {
		return nil, err
	}
	r := newCQRing(ringSize(min(n, minCQSlots)))
	e.cqs++
	e.events.reserve(cqEvents)
	return &CQ{e: e, userData: userData, prod: r, cons: r, capacity: n}, nil
}

// push appends a completion of a QP of e. It returns false if the CQ overflowed, now or earlier;
// the caller then moves the QP to ERR. Events go to e, which may not be the home.
func (cq *CQ) push(e *Engine, wc *WC, solicited bool) bool {
	if cq.on.Load() {
		cq.mu.Lock()
	}
	ok := cq.tail < cq.limit || cq.room(e)
	if ok {
		if r := cq.prod; r != nil {
			r.slots[cq.tail&uint64(len(r.slots)-1)] = *wc
			cq.tail++
			r.tail.Store(cq.tail)
		} else {
			cq.pushRing(e, wc)
		}
		// This store and load are ordered against Arm's store and the Poll after it: either push
		// sees the CQ armed, or that Poll sees the completion.
		if a := cq.armed.Load(); a != armNone {
			if a == armAny || solicited || wc.Status != WCSuccess {
				cq.armed.Store(armNone)
				cq.events++
				cq.told.Store(cq.tail)
				e.events.push(&cq.pending, Event{Type: EventCompletion, CQ: cq})
			}
		}
	}
	if cq.on.Load() { // as above: it changes only under the lock of each engine that pushes
		cq.mu.Unlock()
	}
	return ok
}

// room reads the consumer's position again and reports whether one more completion fits. If none
// does, the CQ is dead from then on.
func (cq *CQ) room(e *Engine) bool {
	if cq.over.Load() != 0 {
		return false
	}
	head := &cq.head
	if cq.ring != nil {
		head = &cq.ring.head.Head
	}
	// A head beyond the tail leaves no room. Only a consumer in foreign memory can write one.
	if waiting := cq.tail - head.Load(); waiting < uint64(cq.capacity) {
		most := uint64(cq.capacity)
		if cq.prod != nil {
			switch size := len(cq.prod.slots); {
			case waiting >= uint64(size):
				cq.replace(ringSize(int(waiting) + 1))
			case size < ringSize(cq.capacity) && cq.tail-cq.made >= busyCQ*uint64(size):
				cq.replace(2 * size) // a short ring comes here often
			}
			most = min(most, uint64(len(cq.prod.slots)))
		}
		cq.limit = cq.tail - waiting + most
		return true
	}
	cq.limit = 0
	cq.over.Store(cqOverflowed)
	if cq.ring != nil {
		cq.ring.head.State.Store(RingOverflowed)
	}
	e.events.push(&cq.pending, Event{Type: EventCQError, CQ: cq})
	return false
}

// replace continues in a new ring of the given size.
func (cq *CQ) replace(size int) {
	old, r := cq.prod, newCQRing(size)
	r.tail.Store(cq.tail)
	old.next = r
	cq.prod, cq.made = r, cq.tail
	old.end.Store(cq.tail) // publishes next
}

// Poll moves up to len(wcs) completions out of the CQ and returns how many it moved.
func (cq *CQ) Poll(wcs []WC) int {
	if cq.foreign {
		return cq.pollRing(wcs)
	}
	n := 0
	head := cq.head.Load()
	for n < len(wcs) {
		r := cq.cons
		if head == r.end.Load() {
			cq.cons = r.next
			continue
		}
		have := int(min(r.tail.Load()-head, uint64(len(wcs)-n)))
		if have == 0 {
			break
		}
		mask := uint64(len(r.slots) - 1)
		for range have {
			wcs[n] = r.slots[head&mask]
			head++
			n++
		}
		cq.head.Store(head)
	}
	return n
}

// Len returns how many completions wait to be polled. Only the consumer may call it.
func (cq *CQ) Len() int {
	if cq.foreign {
		return cq.lenRing()
	}
	r := cq.cons
	for r.end.Load() != noEnd {
		r = r.next
	}
	return int(r.tail.Load() - cq.head.Load())
}

// Arm requests one EventCompletion at the next completion, or, with solicitedOnly, at the next
// solicited or failed one. As with ibv_req_notify_cq, poll once more after arming. Arming for
// solicited completions does not weaken a CQ already armed for any.
func (cq *CQ) Arm(solicitedOnly bool) {
	if !solicitedOnly {
		cq.armed.Store(armAny)
		return
	}
	cq.armed.CompareAndSwap(armNone, armSolicited)
}

// Waiting returns how many completions were ever pushed, and how many of them wait to be polled.
// Only the consumer may call it.
func (cq *CQ) Waiting() (pushed uint64, n int) {
	n = cq.Len()
	head := cq.head.Load()
	if cq.foreign {
		head = cq.headRing()
	}
	return head + uint64(n), n
}

// Told returns the number of completions pushed at the last EventCompletion. Any goroutine may call
// it.
func (cq *CQ) Told() uint64 { return cq.told.Load() }

// Resize changes the capacity to n, or fails with ErrBusy if more completions are waiting. As a
// command of the home it may run beside Poll and, if the CQ is shared, beside other engines.
func (cq *CQ) Resize(n int) error {
	if cq.destroyed() {
		return &EngineError{Op: "resize CQ", Err: ErrDestroyed}
	}
	if cq.foreign {
		return &ArgError{Op: "resize CQ", Arg: "CQ", Why: "has a ring: see ResizeRing"}
	}
	if err := checkCQE("resize CQ", n); err != nil {
		return err
	}
	defer cq.unlock(cq.lock())
	if cq.tail-cq.head.Load() > uint64(n) {
		return opErr("resize CQ", ErrBusy, "more than %d completions wait", n)
	}
	cq.capacity = n
	cq.limit = 0 // room computes it again
	if size := ringSize(n); size < len(cq.prod.slots) {
		cq.replace(size)
	}
	return nil
}

// Overflowed reports whether the CQ was full and lost completions. None will follow those that Poll
// still returns. The consumer may call it.
func (cq *CQ) Overflowed() bool { return cq.over.Load()&cqOverflowed != 0 }

// Cap returns the capacity in completions.
func (cq *CQ) Cap() int {
	defer cq.unlock(cq.lock())
	return cq.capacity
}

// UserData returns the userData argument of CreateCQ.
func (cq *CQ) UserData() any { return cq.userData }

// Destroy removes the CQ, or fails with ErrBusy while QPs use it. Only the home may call it. The
// home drops the CQ's events; other engines drop theirs when they come to them.
func (cq *CQ) Destroy() error {
	if users, ok := cq.end(); !ok {
		if users < 0 {
			return &EngineError{Op: "destroy CQ", Err: ErrDestroyed}
		}
		return opErr("destroy CQ", ErrBusy, "%d queues use it", users)
	}
	cq.over.Store(cq.over.Load() | cqDestroyed)
	cq.limit = 0
	cq.ring = nil
	cq.e.events.purge(func(ev *Event) bool { return ev.CQ == cq })
	cq.e.events.release(cqEvents)
	cq.e.cqs--
	return nil
}
