package mem

import (
	"fmt"

	"github.com/goroce/goroce/ib"
)

// WindowType is the kind of a memory window.
type WindowType uint8

// The window types (IBTA 10.6.7.2). verbs knows only types 1 and 2; the device decides whether type
// 2 is 2A or 2B.
const (
	// Type1 windows are bound by a verbs call to any memory of their PD; any QP of the PD can use
	// them.
	Type1 WindowType = 1 + iota
	// Type2A windows are bound by a work request and belong to the QP it was posted to.
	// The QP cannot be destroyed while one is bound.
	Type2A
	// Type2B is as Type2A, but destroying the QP unbinds the window. rxe and ConnectX have this
	// type.
	Type2B
)

func (w WindowType) String() string {
	switch w {
	case Type1:
		return "type 1"
	case Type2A:
		return "type 2A"
	case Type2B:
		return "type 2B"
	}
	return fmt.Sprintf("WindowType(%d)", uint8(w))
}

// Window is a memory window (ibv_mw): a separate key for a part of a region, cheap to grant and to
// revoke. A peer's access is checked against the window's range and rights (rxe checks the range of
// the region only).
type Window struct {
	table *Table
	pd    *PD
	kind  WindowType
	idle  grant // what the window grants while it is not bound
	// Under the lock of the table:
	cur  *grant // what it grants now
	key  uint32
	dead bool
	// next and prev link the windows bound on one QP.
	next, prev *Window
}

// AllocMW makes a memory window that is not bound.
func (t *Table) AllocMW(pd *PD, kind WindowType) (*Window, error) {
	const op = "alloc MW"
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := pd.check(t, op); err != nil {
		return nil, err
	}
	if kind < Type1 || kind > Type2B {
		return nil, opErr(op, "type", kind.String(), ErrInvalid)
	}
	if t.counts.Windows >= t.lim.Windows {
		return nil, opErr(op, "", fmt.Sprintf("%d windows", t.lim.Windows), ErrLimit)
	}
	key, err := t.keys.draw()
	if err != nil {
		return nil, opErr(op, "key", "", err)
	}
	w := &Window{table: t, pd: pd, kind: kind}
	w.idle.pd, w.idle.key, w.idle.win = pd, anyKey, w
	w.idle.state.Store(unbound)
	w.key, w.cur = key, &w.idle
	t.keys.put(key, &w.idle)
	pd.windows++
	t.counts.Windows++
	return w, nil
}

// Type returns the kind of window.
func (w *Window) Type() WindowType { return w.kind }

// RKey returns the current key, which a bind changes; 0 once deallocated.
func (w *Window) RKey() ib.RKey {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return ib.RKey(w.key)
}

// Bound reports whether peers can use the window.
func (w *Window) Bound() bool { return w.now() != &w.idle }

// now returns what the window grants now.
func (w *Window) now() *grant {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.cur
}

// bound is Bound with the lock held.
func (w *Window) bound() bool { return w.cur != &w.idle }

// Dealloc destroys the window, unbinding it first if need be (ibv_dealloc_mw). A second call fails
// with ErrDestroyed. quiesce is as for [Region.Deregister]: when Dealloc returns, no engine uses
// what was bound.
func (w *Window) Dealloc(quiesce func()) error {
	w.table.mu.Lock()
	if w.dead {
		w.table.mu.Unlock()
		return opErr("dealloc MW", "", "", ErrDestroyed)
	}
	was := w.bound()
	w.destroy()
	w.table.mu.Unlock()
	if was {
		settle(quiesce)
	}
	return nil
}

// destroy is Dealloc with the lock held.
func (w *Window) destroy() {
	w.unbind()
	w.dead = true
	w.table.keys.remove(w.key)
	w.key = 0
	w.pd.windows--
	w.table.counts.Windows--
}

// unbind revokes peers' access through the window; its key stays reserved. The lock is held.
func (w *Window) unbind() {
	g := w.cur
	if g == &w.idle {
		return
	}
	g.state.Store(unbound)
	g.mem.region.windows--
	w.table.counts.Bound--
	w.leaveQP(g.qpn)
	// Otherwise the grant would keep the memory from the garbage collector.
	w.table.keys.slot(w.key).g.Store(&w.idle)
	w.cur = &w.idle
}

// joinQP puts w on the list of its QP.
func (w *Window) joinQP(qpn ib.QPN) {
	head := w.table.onQP[qpn]
	w.next = head
	if head != nil {
		head.prev = w
	}
	w.table.onQP[qpn] = w
}

func (w *Window) leaveQP(qpn ib.QPN) {
	if w.kind == Type1 {
		return
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.next != nil:
		w.table.onQP[qpn] = w.next
	default:
		delete(w.table.onQP, qpn)
	}
	w.next, w.prev = nil, nil
}

// DetachQP unbinds the type 2B windows on a QP. The QP's engine must call it before the QP is
// destroyed: the QP number may be used again, and its windows must not come alive with it. It fails
// with ErrBusy, and changes nothing, if a type 2A window is bound on the QP. It waits for no
// engine, since no other one uses those windows.
func (t *Table) DetachQP(qpn ib.QPN) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := t.onQP[qpn]; w != nil; w = w.next {
		if w.kind == Type2A {
			return opErr("destroy QP", "", "type 2A window bound on QP "+qpn.String(), ErrBusy)
		}
	}
	for w := t.onQP[qpn]; w != nil; w = t.onQP[qpn] {
		w.unbind()
	}
	return nil
}
