package transport

// CreateRingCQ makes a CQ for n completions with its ring in memory: RingBytes(n) zeroed bytes at a
// multiple of 64. The memory belongs to the CQ until Destroy or Detach.
func (e *Engine) CreateRingCQ(n int, memory []byte, userData any) (*CQ, error) {
	const op = "create CQ"
	if err := e.checkNewCQ(op, n); err != nil {
		return nil, err
	}
	r, err := newRing(op, n, memory)
	if err != nil {
		return nil, err
	}
	e.cqs++
	e.events.reserve(cqEvents)
	return &CQ{e: e, userData: userData, foreign: true, ring: r, capacity: n}, nil
}

// pushRing is the ring's part of push, for a CQ with room.
func (cq *CQ) pushRing(e *Engine, wc *WC) {
	cq.ring.put(cq.tail, wc, e.now)
	cq.tail++
	cq.ring.head.Tail.Store(cq.tail)
}

// pollRing is Poll for a CQ with a ring, used by tests and consumers in Go.
func (cq *CQ) pollRing(wcs []WC) int {
	r := cq.ring
	if r == nil {
		return 0
	}
	head := r.head.Head.Load()
	n := int(min(r.head.Tail.Load()-head, uint64(len(wcs))))
	for i := range n {
		r.get(head+uint64(i), &wcs[i])
	}
	r.head.Head.Store(head + uint64(n))
	return n
}

// lenRing is Len for a CQ with a ring.
func (cq *CQ) lenRing() int {
	r := cq.ring
	if r == nil {
		return 0
	}
	return int(min(r.head.Tail.Load()-r.head.Head.Load(), uint64(len(r.slots))))
}

// headRing returns how many completions of a CQ with a ring were ever polled.
func (cq *CQ) headRing() uint64 {
	if cq.ring == nil {
		return 0
	}
	return cq.ring.head.Head.Load()
}

// HasRing reports whether CreateRingCQ made the CQ.
func (cq *CQ) HasRing() bool { return cq.foreign }

// ResizeRing is Resize for a CQ with a ring. It moves waiting completions to new memory and frees
// the old. Unlike Resize it must not run beside the consumer, which then uses the new memory.
func (cq *CQ) ResizeRing(n int, memory []byte) error {
	const op = "resize CQ"
	if cq.destroyed() || cq.ring == nil {
		return &EngineError{Op: op, Err: ErrDestroyed}
	}
	if err := checkCQE(op, n); err != nil {
		return err
	}
	r, err := newRing(op, n, memory)
	if err != nil {
		return err
	}
	defer cq.unlock(cq.lock())
	old := cq.ring
	head := old.head.Head.Load()
	waiting := cq.tail - head
	if waiting > uint64(len(old.slots)) {
		head, waiting = cq.tail, 0 // the consumer wrote nonsense
	}
	if waiting > uint64(n) {
		return opErr(op, ErrBusy, "more than %d completions wait", n)
	}
	for i := head; i != cq.tail; i++ {
		r.slots[i&r.head.Mask] = old.slots[i&old.head.Mask]
	}
	r.head.Head.Store(head)
	r.head.Tail.Store(cq.tail)
	r.head.State.Store(old.head.State.Load())
	cq.ring, cq.capacity, cq.limit = r, n, 0
	return nil
}

// Detach gives a ring's memory back without Destroy, when the engine is no longer used. The caller
// holds the home's lock. For QPs that still complete there, the CQ acts as full.
func (cq *CQ) Detach() {
	defer cq.unlock(cq.lock())
	cq.over.Store(cq.over.Load() | cqDestroyed)
	cq.limit = 0
	cq.ring = nil
}
