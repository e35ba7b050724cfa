package verbs

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// MW is a memory window (ibv_mw): a key of its own for a part of a region.
type MW struct {
	d *Device
	t *mem.Window
}

// AllocMW makes a memory window that is not bound.
func (pd *PD) AllocMW(kind WindowType) (*MW, error) {
	d := pd.Device()
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.unlock()
	t, err := d.s.Table().AllocMW(pd.t, kind)
	if err != nil {
		return nil, own(err)
	}
	return &MW{d, t}, nil
}

// engine returns the window's mem.Window; nil of nil.
func (mw *MW) engine() *mem.Window {
	if mw == nil {
		return nil
	}
	return mw.t
}

// RKey returns the current key; binding changes it.
func (mw *MW) RKey() ib.RKey {
	if mw.d == nil {
		return 0
	}
	return mw.t.RKey()
}

// NextRKey returns the key for the next bind of a type 2 window (ibv_inc_rkey).
func (mw *MW) NextRKey() ib.RKey { return mem.NextRKey(mw.RKey()) }

// Bind binds a type 1 window to n bytes of mr from offset off, in place of its previous binding,
// and returns its new key; n of 0 unbinds it (ibv_bind_mw). Type 2 windows are bound by a work
// request, see [QP.BindMW].
func (mw *MW) Bind(pd *PD, mr *MR, off, n int, access Access) (ib.RKey, error) {
	const op = "bind MW"
	switch {
	case pd == nil || pd.d != mw.d:
		return 0, argError(op, "pd", "is nil or of another device")
	case mr == nil && n != 0:
		return 0, argError(op, "mr", "is nil")
	}
	if err := checkBind(op, mw, mr, off, n); err != nil {
		return 0, err
	}
	if err := mw.d.settle(); err != nil {
		return 0, err
	}
	info := mem.BindInfo{Access: access, Length: uint64(n)}
	if mr != nil {
		info.Region, info.Addr = mr.t, mr.Addr()+uint64(off)
	}
	key, err := mw.t.Bind(pd.t, info, mw.d.quiesce)
	return key, mw.d.orClosed(own(err))
}

// Close ends the window (ibv_dealloc_mw), and unbinds it if necessary.
func (mw *MW) Close() error {
	return mw.d.endMemory("MW", func() error { return mw.t.Dealloc(mw.d.quiesce) })
}

// BindMW posts a work request that binds a type 2 window to n bytes of mr from offset off, and
// returns the key that the window has once the request has completed.
func (qp *QP) BindMW(id uint64, mw *MW, mr *MR, off, n int, access Access, flags SendFlags) (ib.RKey, error) {
	const op = "bind MW on a QP"
	switch {
	case mw == nil || mw.d != qp.d:
		return 0, argError(op, "mw", "is nil or of another device")
	case mw.t.Type() == mem.Type1:
		return 0, argError(op, "mw", "is of type 1, which MW.Bind binds")
	case mr == nil:
		return 0, argError(op, "mr", "is nil")
	}
	if err := checkBind(op, mw, mr, off, n); err != nil {
		return 0, err
	}
	key := mw.NextRKey()
	err := qp.PostSend(&SendWR{
		ID: id, Opcode: WRBindMW, Flags: flags,
		Bind: BindMW{
			MW: mw, MR: mr, NewRKey: key,
			Addr: mr.Addr() + uint64(off), Length: uint64(n), Access: access,
		},
	})
	return key, err
}

// checkBind checks a range without the region table; whether the region contains it is checked when
// the window is bound.
func checkBind(op string, mw *MW, mr *MR, off, n int) error {
	switch {
	case mr != nil && mr.d != mw.d:
		return argError(op, "mr", "is of another device")
	case off < 0:
		return argError(op, "off", "is negative")
	case n < 0:
		return argError(op, "n", "is negative")
	}
	return nil
}
