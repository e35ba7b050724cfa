package mem

import "fmt"

// Change says what Reregister changes (ibv_rereg_mr flags).
type Change uint8

// What can change.
const (
	ChangeTranslation Change = 1 << iota // Bytes, IOVA, OnRelease, Persist
	ChangePD
	ChangeAccess

	changeAll = ChangeTranslation | ChangePD | ChangeAccess
)

// RegionChange holds the new values. RegionAttr.Access applies with ChangeAccess, the rest of
// RegionAttr with ChangeTranslation.
type RegionChange struct {
	What Change
	PD   *PD
	// KeepKey keeps the region's key, which then stands for the region as changed. It cannot be
	// combined with ChangeTranslation: a peer that has the key of some memory must not gain access
	// to other memory with it.
	KeepKey bool
	RegionAttr
}

// Reregister changes the memory, the rights or the PD of a region and gives it a new key, unless
// KeepKey is set: earlier keys are revoked. On an error nothing changes (verbs would leave the
// region unusable). Errors: ErrBusy while windows are bound; ErrInvalid naming the attribute;
// ErrDestroyed; FaultMemory if the memory is lost and not replaced. quiesce is as for
// [Region.Deregister]: when Reregister returns, no engine uses what was granted before.
func (r *Region) Reregister(c RegionChange, quiesce func()) error {
	old, err := r.change(&c)
	switch {
	case err != nil:
		return err
	case old != nil:
		r.table.release(quiesce, old)
	default:
		settle(quiesce)
	}
	return nil
}

// change is Reregister without the release of replaced memory, which it returns.
func (r *Region) change(c *RegionChange) (*memory, error) {
	const op = "reregister"
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.Registered() {
		return nil, opErr(op, "", "", ErrDestroyed)
	}
	if c.What == 0 || c.What&^changeAll != 0 {
		return nil, opErr(op, "What", fmt.Sprintf("%#x", uint8(c.What)), ErrInvalid)
	}
	if r.windows != 0 {
		return nil, opErr(op, "", fmt.Sprintf("%d memory windows bound", r.windows), ErrBusy)
	}
	g := r.cur.Load()
	moves := c.What&ChangeTranslation != 0
	if !moves && !g.ok() {
		return nil, opErr(op, "What", "give it other memory", FaultMemory)
	}
	if moves && c.KeepKey {
		return nil, opErr(op, "KeepKey", "with other memory", ErrInvalid)
	}
	pd := g.pd
	if c.What&ChangePD != 0 {
		if err := c.PD.check(t, op); err != nil {
			return nil, err
		}
		pd = c.PD
	}
	a := c.RegionAttr
	if !moves {
		// The address stays, except that zero-based addressing starts at 0.
		a.Bytes, a.IOVA, a.IOVASet, a.Persist = g.mem.bytes, g.va, !g.access.Has(ZeroBased), g.mem.persist
		if c.What&ChangeAccess != 0 && c.Access.Has(ZeroBased) {
			a.IOVASet = false
		}
	}
	if c.What&ChangeAccess == 0 {
		a.Access = g.access
	}
	if err := t.checkAttr(op, &a); err != nil {
		return nil, err
	}
	if c.KeepKey {
		r.regrant(pd, &a)
		return nil, nil
	}
	// The new key is drawn first: if the random source fails, nothing has changed.
	key, err := t.keys.draw()
	if err != nil {
		return nil, opErr(op, "key", "", err)
	}
	r.revoke()
	pd.regions++
	if !moves {
		r.publish(key, pd, &a, g.mem)
		return nil, nil
	}
	t.leave(g.mem)
	r.publish(key, pd, &a, newMemory(r, &a))
	return g.mem, nil
}
