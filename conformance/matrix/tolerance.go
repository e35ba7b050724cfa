package matrix

import (
	"fmt"
	"sync"
)

// lostInARow is how many sessions may fail one after the other before the rest of the rows is
// not tried any more: each may cost as long as the agent is given for an answer.
const lostInARow = 8

// Tolerance lets a run go on when a peer is lost in the middle of it: rows fail with the reason,
// and the next ones try again, but not for ever.
type Tolerance struct {
	mu   sync.Mutex
	n    int
	last error
}

// Lost notes that a session could not be had, or broke.
func (t *Tolerance) Lost(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	t.last = err
}

// Found notes that a session works.
func (t *Tolerance) Found() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n < lostInARow {
		t.n = 0
	}
}

// Given is the reason why nothing is tried any more, nil if it is.
func (t *Tolerance) Given() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n < lostInARow {
		return nil
	}
	return fmt.Errorf("not tried: the peer was lost %d times in a row, lastly: %w", t.n, t.last)
}
