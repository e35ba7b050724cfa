package mem

import "github.com/goroce/goroce/ib"

// Local checks one scatter/gather element of a work request and returns its bytes. need is
// LocalWrite for memory to be written, 0 for memory to be sent. An element of length 0 is allowed
// whatever its key and address are, and gives nil (as rxe and ConnectX: it is skipped).
func (t *Table) Local(pd *PD, key ib.LKey, addr uint64, n uint32, need Access) ([]byte, Fault) {
	b, _, f := t.local(pd, key, addr, n, need)
	return b, f
}

// local is Local, and also returns the grant of the bytes: nil if there are none.
func (t *Table) local(pd *PD, key ib.LKey, addr uint64, n uint32, need Access) ([]byte, *grant, Fault) {
	if n == 0 {
		return nil, nil, FaultNone
	}
	g := t.keys.probe(uint32(key))
	switch {
	case g == nil || g.key != uint32(key) || g.win != nil:
		return nil, nil, FaultKey
	case g.pd != pd:
		return nil, nil, FaultPD
	case g.access&need != need:
		return nil, nil, FaultAccess
	case !g.ok():
		return nil, nil, g.fault()
	}
	b, ok := g.span(addr, uint64(n))
	if !ok {
		return nil, nil, FaultBounds
	}
	return b, g, FaultNone
}

// Remote checks an access that a peer asks for on QP qpn of pd: n bytes (up to MaxAccessBytes) at
// va under key, with all the rights of need, which must contain at least one remote right. A length
// of 0 is allowed whatever the key and address are (IBTA C9-88), and gives a View of nothing.
func (t *Table) Remote(pd *PD, qpn ib.QPN, key ib.RKey, va uint64, n uint32, need Access) (View, Fault) {
	if n == 0 {
		return View{VA: va}, FaultNone
	}
	g, f := t.remoteGrant(pd, qpn, key, need)
	if f != FaultNone {
		return View{}, f
	}
	if n > MaxAccessBytes {
		return View{}, FaultBounds
	}
	b, ok := g.span(va, uint64(n))
	if !ok {
		return View{}, FaultBounds
	}
	return View{Bytes: b, VA: va, g: g}, FaultNone
}

// RemoteWhole is Remote for all bytes of a key: the memory region selectivity of FLUSH (IBTA A19),
// which ignores address and length.
func (t *Table) RemoteWhole(pd *PD, qpn ib.QPN, key ib.RKey, need Access) (View, Fault) {
	g, f := t.remoteGrant(pd, qpn, key, need)
	if f != FaultNone {
		return View{}, f
	}
	return View{Bytes: g.all(), VA: g.va, g: g}, FaultNone
}

// remoteGrant finds the grant of a peer's key and checks everything but the range.
func (t *Table) remoteGrant(pd *PD, qpn ib.QPN, key ib.RKey, need Access) (*grant, Fault) {
	g := t.keys.probe(uint32(key))
	switch {
	case g == nil:
		return nil, FaultKey
	case g.key != uint32(key) && g.key != anyKey:
		return nil, FaultKey
	case !g.ok():
		return nil, g.fault()
	case g.pd != pd:
		return nil, FaultPD
	case g.qpn != 0 && g.qpn != qpn:
		return nil, FaultQP
	case need&remoteAccess == 0 || g.access&need != need:
		return nil, FaultAccess
	}
	return g, FaultNone
}
