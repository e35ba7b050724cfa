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

// RegionChange holds the new values. RegionAttr.Access counts under ChangeAccess, the rest
// of it under ChangeTranslation.
type RegionChange struct {
	What Change
	PD   *PD
	RegionAttr
}

// Reregister changes the memory, the rights or the PD of a region and gives it
// a new key: what was handed out before is revoked. On an error nothing has
// changed (verbs would leave the region unusable). Errors: ErrBusy while windows
// are bound; ErrInvalid naming the attribute; ErrDestroyed; FaultMemory if the memory
// is lost and stays.
func (r *Region) Reregister(c RegionChange) error {
	const op = "reregister"
	t := r.table
	if !r.Registered() {
		return opErr(op, "", "", ErrDestroyed)
	}
	if c.What == 0 || c.What&^changeAll != 0 {
		return opErr(op, "What", fmt.Sprintf("%#x", uint8(c.What)), ErrInvalid)
	}
	if r.windows != 0 {
		return opErr(op, "", fmt.Sprintf("%d memory windows bound", r.windows), ErrBusy)
	}
	moves := c.What&ChangeTranslation != 0
	if r.lost && !moves {
		return opErr(op, "What", "give it other memory", FaultMemory)
	}
	pd := r.pd
	if c.What&ChangePD != 0 {
		if err := c.PD.check(t, op); err != nil {
			return err
		}
		pd = c.PD
	}
	a := c.RegionAttr
	if !moves {
		// The address stays, except that zero-based addressing starts at 0.
		a.Bytes, a.IOVA, a.IOVASet, a.Persist = r.mem, r.va, !r.access.Has(ZeroBased), r.persist
		if c.What&ChangeAccess != 0 && c.Access.Has(ZeroBased) {
			a.IOVASet = false
		}
	}
	if c.What&ChangeAccess == 0 {
		a.Access = r.access
	}
	a, err := t.checkAttr(op, a)
	if err != nil {
		return err
	}
	// The new key is drawn first: if the random source fails, nothing has changed.
	var fresh grant
	if err := t.keys.add(&fresh); err != nil {
		return opErr(op, "key", "", err)
	}
	t.keys.remove(&r.grant)
	r.revoke()
	r.key = fresh.key
	t.keys.replace(fresh.key, &r.grant)
	r.pd.regions--
	pd.regions++
	if moves {
		r.release()
		r.install(pd, a)
		return nil
	}
	r.regrant(pd, a.IOVA, a.Access)
	return nil
}
