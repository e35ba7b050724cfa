package mem

// View is a range of registered memory that a peer was allowed to access. It
// is a plain value; the packets of one message share it.
type View struct {
	// Bytes is the range. Use it only right after the check, or after Valid: the owner may unmap
	// memory once it is deregistered.
	Bytes []byte
	// VA is the address of the first byte, as the peer named it.
	VA uint64

	g *grant
}

// Valid reports whether the grant of the view is still good: its key has not been deregistered,
// reregistered, invalidated, unbound or rebound since. The view of a zero-length access is always
// valid.
func (v View) Valid() bool { return v.g == nil || v.g.ok() }

// Persist makes the bytes durable, for FLUSH to persistence. It returns FaultState if the view was
// revoked, FaultAccess if the memory cannot persist, or the error of RegionAttr.Persist.
func (v View) Persist() error {
	switch {
	case !v.Valid():
		return FaultState
	case len(v.Bytes) == 0:
		return nil
	case v.g.mem.persist == nil:
		return FaultAccess
	}
	return v.g.mem.persist(v.Bytes)
}

// atomicFault returns the reason why an atomic operation on the first 8 bytes cannot be done. IBTA
// requires the virtual address to be aligned (C9-141 and others), and the CPU the real one; the two
// can differ when the region has an IOVA of its own.
func (v View) atomicFault() Fault {
	switch {
	case !v.Valid():
		return FaultState
	case len(v.Bytes) < AtomicBytes:
		return FaultBounds
	case (v.VA|addressOf(v.Bytes))%AtomicBytes != 0:
		return FaultAlign
	}
	return FaultNone
}
