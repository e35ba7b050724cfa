package mem

import "github.com/goroce/goroce/ib"

// BindInfo is the memory that a window is bound to (ibv_mw_bind_info).
type BindInfo struct {
	Region *Region
	Addr   uint64 // first address, in the address space of the region
	Length uint64 // bytes
	// Access may have the remote rights, and for type 2 windows ZeroBased.
	Access Access
}

// Bind binds a type 1 window in place of its former binding, or unbinds it if info.Length is 0. pd
// is the protection domain of the QP that the call was made on. Bind returns the new key of the
// window, which is random; the former key stops working at once, before work requests posted
// earlier have run. quiesce is as for [Region.Deregister]: when Bind returns, no engine uses what
// was bound before.
//
// On an error (which wraps ErrDestroyed, or the Fault of the rule that was broken) nothing changes.
func (w *Window) Bind(pd *PD, info BindInfo, quiesce func()) (ib.RKey, error) {
	key, was, err := w.bind(pd, info)
	if was {
		settle(quiesce)
	}
	return key, err
}

// bind is Bind, and reports whether another binding has ended.
func (w *Window) bind(pd *PD, info BindInfo) (_ ib.RKey, was bool, _ error) {
	const op = "bind MW"
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.dead {
		return 0, false, opErr(op, "", "", ErrDestroyed)
	}
	if w.kind != Type1 {
		return 0, false, opErr(op, "", w.kind.String()+" is bound by a work request", FaultType)
	}
	if w.pd != pd {
		return 0, false, opErr(op, "pd", "not that of the window", FaultPD)
	}
	g := &w.idle
	if info.Length != 0 {
		// IBTA 10.6.7.2.1: type 1 windows have virtual addresses.
		if info.Access.Has(ZeroBased) {
			return 0, false, opErr(op, "Access", "ZERO_BASED is for type 2 windows", FaultAccess)
		}
		var f Fault
		if g, f = w.checkBind(&info); f != FaultNone {
			return 0, false, opErr(op, f.bindArg(), "", f)
		}
	}
	key, err := t.keys.draw()
	if err != nil {
		return 0, false, opErr(op, "key", "", err)
	}
	was = w.bound()
	w.unbind()
	t.keys.remove(w.key)
	w.key = key
	t.keys.put(key, g.named(key))
	w.take(g)
	return ib.RKey(key), was, nil
}

// BindWR executes the bind work request of a QP on a type 2 window, which must not be bound. key is
// its new key: the index of the current one with a low byte of the consumer's choice (see
// NextRKey). On a fault nothing changes, and the request completes with a memory window bind error.
// BindWR allocates 64 bytes, since a grant that the data path may be reading is never reused.
func (t *Table) BindWR(pd *PD, qpn ib.QPN, w *Window, key ib.RKey, info BindInfo) Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case w == nil || w.table != t || w.dead:
		return FaultKey
	case w.kind == Type1:
		return FaultType
	case w.pd != pd:
		return FaultPD // IBTA C10-72
	case w.bound():
		return FaultState // IBTA o10-37.2.30: rebinding takes an invalidate first
	case uint32(key)>>keyIndexShift != w.key>>keyIndexShift:
		return FaultKey
	case info.Length == 0:
		return FaultBounds // IBTA o10-37.2.40: no unbinding by an empty bind
	case qpn == 0:
		return FaultQP // no such QP; and a grant for QP 0 would be one for all QPs
	}
	g, f := w.checkBind(&info)
	if f != FaultNone {
		return f
	}
	g.qpn = qpn
	w.joinQP(qpn)
	t.keys.replace(w.key, uint32(key), g.named(uint32(key)))
	w.key = uint32(key)
	w.take(g)
	return FaultNone
}

// NextRKey returns the key with the next variant byte, for a bind of a type 2 window
// (ibv_inc_rkey).
func NextRKey(k ib.RKey) ib.RKey { return k&^0xFF | (k+1)&0xFF }

// checkBind applies the rules common to both kinds of bind and returns what they grant, without key
// and QP. The lock is held.
func (w *Window) checkBind(info *BindInfo) (*grant, Fault) {
	r := info.Region
	if r == nil || r.table != w.table {
		return nil, FaultKey
	}
	rg := r.cur.Load()
	switch {
	case !rg.ok():
		return nil, rg.fault()
	case rg.pd != w.pd:
		return nil, FaultPD
	case !rg.access.Has(MWBind):
		return nil, FaultAccess // IBTA C10-73
	case rg.access.Has(ZeroBased):
		return nil, FaultAccess // as rxe: such a region has no addresses to bind
	case info.Access&^windowAccess != 0:
		return nil, FaultAccess
	case info.Access&needsLocalWrite != 0 && !rg.access.Has(LocalWrite):
		return nil, FaultAccess // IBTA C10-74
	case info.Access&flushAccess&^rg.access != 0:
		return nil, FaultAccess
	}
	bytes, ok := rg.span(info.Addr, info.Length)
	if !ok {
		return nil, FaultBounds // IBTA C10-75
	}
	g := newGrant(bytes)
	if !info.Access.Has(ZeroBased) {
		g.va = info.Addr
	}
	g.pd, g.access, g.mem, g.win = w.pd, info.Access, rg.mem, w
	return g, FaultNone
}

// named gives its key to a grant that has not been published yet.
func (g *grant) named(key uint32) *grant {
	if g.key != anyKey {
		g.key = key
	}
	return g
}

// take makes g the grant of the window, which is not bound. The lock is held.
func (w *Window) take(g *grant) {
	w.cur = g
	if g != &w.idle {
		g.mem.region.windows++
		w.table.counts.Bound++
	}
}

// bindArg names the field of BindInfo that a fault of checkBind is about.
func (f Fault) bindArg() string {
	switch f {
	case FaultAccess:
		return "Access"
	case FaultBounds:
		return "Length"
	}
	return "Region"
}

// Invalidate revokes a key on behalf of QP qpn of pd, as LOCAL_INV (remote false) and SEND with
// invalidate (remote true) do. Only type 2 windows bound on that QP can be invalidated; they can
// then be bound again. Type 1 windows and registered regions give FaultType (IBTA 10.6.7.2.6: a
// region can be invalidated only if a work request registered it, which this stack does not offer).
// Windows that are not bound give FaultState (rxe crashes). For windows the rules are the same
// locally and remotely.
func (t *Table) Invalidate(pd *PD, qpn ib.QPN, key ib.RKey, remote bool) Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.keys.lookup(uint32(key))
	switch {
	case g == nil:
		return FaultKey
	case g.pd != pd:
		return FaultPD
	case g.win == nil || g.win.kind == Type1:
		return FaultType
	case !g.ok():
		return FaultState
	case g.qpn != qpn:
		return FaultQP
	}
	g.win.unbind()
	return FaultNone
}
