package nexthop

import (
	"net/netip"
	"slices"

	"github.com/goroce/goroce/roce/internal/rtnl"
)

// follow is what is known of where the local addresses are, by their number in
// Options.Addrs. Table.mu is held.
type follow struct {
	moved func(i int)
	at    []int    // the interface; the last one if there is none
	name  []string // of the interface, if the address has a meaning only there
	gone  []bool   // not there any more, or perhaps not
	look  bool     // they are to be looked for
}

// begin sets out from what the options say.
func (f *follow) begin(o *Options, links map[int]rtnl.Link) {
	f.at = slices.Clone(o.Indexes)
	f.gone, f.name = make([]bool, len(f.at)), make([]string, len(f.at))
	for i, index := range f.at {
		if o.Addrs[i].IsLinkLocalUnicast() {
			// Others may have the same: VLAN interfaces have that of the one below.
			f.name[i] = links[index].Name
		}
	}
}

// lost notes that an interface was removed.
func (f *follow) lost(index int) {
	for i, at := range f.at {
		f.gone[i] = f.gone[i] || at == index
	}
}

// unsure notes that anything may have happened. The interfaces are to be read again, and then the
// addresses are looked for.
func (f *follow) unsure() {
	for i := range f.gone {
		f.gone[i] = true
	}
}

// again has the addresses looked for that are away: interfaces have changed.
func (f *follow) again() { f.look = f.look || slices.Contains(f.gone, true) }

// due reports whether the addresses are to be looked for, by somebody who does so now.
func (f *follow) due() bool {
	if f.moved == nil || !f.look {
		return false
	}
	f.look = false
	return true
}

// Follow has moved called, from a goroutine of the table, when one of the
// addresses is on another interface than before, or on one again after the
// interface or the address was removed; i is its number.
func (t *Table) Follow(moved func(i int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follow.moved, t.follow.look = moved, true
	t.wakeWorker()
}

// Index returns the index of the interface that local address i is on, or was last.
func (t *Table) Index(i int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.follow.at[i]
}

// locate asks where the addresses are, and returns the numbers of those that
// have moved. asking is held.
func (t *Table) locate() (moves []int) {
	all, err := t.conn.Addresses()
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.follow
	if err != nil {
		f.look = true // with the next event
		return nil
	}
	where := make(map[netip.Addr][]int)
	for _, a := range all {
		where[a.Addr] = append(where[a.Addr], a.Index)
	}
	for i, a := range t.opts.Addrs {
		if a.Is4() && a.IsLoopback() {
			continue // all of 127/8 is where it always was
		}
		on := slices.DeleteFunc(where[a], func(index int) bool {
			l, known := t.links[index] // if not, there will be a notification
			return !known || f.name[i] != "" && l.Name != f.name[i]
		})
		switch {
		case len(on) == 0:
			f.gone[i] = true
			continue
		case slices.Contains(on, f.at[i]) && !f.gone[i]:
			continue
		case !slices.Contains(on, f.at[i]):
			f.at[i] = on[0]
		}
		f.gone[i] = false
		moves = append(moves, i)
	}
	if len(moves) > 0 {
		t.enqueueAll() // some leave by the interface of their source
	}
	return moves
}

// leaveBy returns the only interface that packets of a key may leave by, 0 if the
// routes tell.
func (t *Table) leaveBy(k key) int {
	if !t.opts.Bound && !k.dst.IsLinkLocalUnicast() && !k.dst.IsMulticast() {
		return 0
	}
	i := slices.Index(t.opts.Addrs, k.src)
	if i < 0 {
		return 0
	}
	return t.Index(i)
}
