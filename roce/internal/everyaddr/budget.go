package everyaddr

import "sync"

// Budget is how many connections the parts of a listener may have together. A nil Budget is any
// number.
type Budget struct {
	most int
	room func() // called when there is room again, with no lock held

	mu   sync.Mutex
	used int
}

// NewBudget makes a budget; nil if most is 0.
func NewBudget(most int, room func()) *Budget {
	if most == 0 {
		return nil
	}
	return &Budget{most: most, room: room}
}

// Take takes a place, and reports whether there was one.
func (b *Budget) Take() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used >= b.most {
		return false
	}
	b.used++
	return true
}

// Give gives a place back.
func (b *Budget) Give() {
	if b == nil {
		return
	}
	b.mu.Lock()
	full := b.used >= b.most
	b.used--
	b.mu.Unlock()
	if full {
		b.room()
	}
}
