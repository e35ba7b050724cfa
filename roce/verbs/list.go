package verbs

import (
	"slices"

	"github.com/goroce/goroce/transport"
)

// QPs returns the queue pairs of the device, in the order of their numbers, without that of the
// communication manager; none once the device is closed.
func (d *Device) QPs() []*QP {
	if d.unmade() {
		return nil
	}
	var all []*QP
	for _, s := range d.shards.all() {
		if s.Lock() != nil {
			continue // closed
		}
		s.Engine().QPs(func(t *transport.QP) bool {
			// A queue pair under construction has no readable number yet.
			if qp, ok := t.UserData().(*QP); ok && qp.t == t {
				all = append(all, qp)
			}
			return true
		})
		s.Unlock()
	}
	slices.SortFunc(all, func(a, b *QP) int { return int(a.num) - int(b.num) })
	return all
}
