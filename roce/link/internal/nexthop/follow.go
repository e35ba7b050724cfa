package nexthop

import (
	"net/netip"
	"slices"

	"github.com/goroce/goroce/roce/internal/rtnl"
)

// follow tracks where the local addresses are, by their number in Options.Addrs. Table.mu is held.
type follow struct {
	moved func(i int)
	at    []int    // the interface; the last one if there is none
	name  []string // of the interface, if the address has a meaning only there
	gone  []bool   // not there any more, or perhaps not
	look  bool     // look for the addresses
}

// begin starts from the options.
func (f *follow) begin(o *Options, links map[int]rtnl.Link) {
	f.at = slices.Clone(o.Indexes)
	f.gone, f.name = make([]bool, len(f.at)), make([]string, len(f.at))
	for i, index := range f.at {
		if o.Addrs[i].IsLinkLocalUnicast() {
			// Others may have the same: VLAN interfaces share that of the one below.
			f.name[i] = links[index].Name
		}
	}
}

// lost records that an interface was removed.
func (f *follow) lost(index int) {
	for i, at := range f.at {
		f.gone[i] = f.gone[i] || at == index
	}
}

// unsure records that anything may have happened: the interfaces must be read again, and then the
// addresses be looked for.
func (f *follow) unsure() {
	for i := range f.gone {
		f.gone[i] = true
	}
}

// again schedules a look for missing addresses after interfaces have changed.
func (f *follow) again() { f.look = f.look || slices.Contains(f.gone, true) }

// due reports whether to look for the addresses; the caller then does so.
func (f *follow) due() bool {
	if f.moved == nil || !f.look {
		return false
	}
	f.look = false
	return true
}

// Follow makes the table call moved, from one of its goroutines, when one of the addresses is on
// another interface than before, or on one again after the interface or the address was removed; i
// is its number.
func (t *Table) Follow(moved func(i int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follow.moved, t.follow.look = moved, true
	t.wakeWorker()
}

// Index returns the index of the interface of local address i, or of its last one.
func (t *Table) Index(i int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.follow.at[i]
}

// locate asks where the addresses are, and returns the numbers of those that have moved. asking is
// held.
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
			continue // all of 127/8 stays where it is
		}
		on := slices.DeleteFunc(where[a], func(index int) bool {
			l, known := t.links[index] // an unknown one will be announced
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

// leaveBy returns the only interface that packets of a key may leave by, 0 if the routes decide.
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
