package valkey

import (
	"os"
	"sync"
	"time"
)

// deadline is a time at which those that wait give up.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	over  chan struct{} // closed when the time has come; nil: none is set
	moved chan struct{} // closed when another is set
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
	d.over = nil
	if t.IsZero() {
		return
	}
	over := make(chan struct{})
	d.over = over
	if left := time.Until(t); left <= 0 {
		close(over)
	} else {
		d.timer = time.AfterFunc(left, func() { close(over) })
	}
}

// wait waits for c.
func (d *deadline) wait(c <-chan struct{}) error {
	for {
		d.mu.Lock()
		over := d.over
		if d.moved == nil {
			d.moved = make(chan struct{})
		}
		moved := d.moved
		d.mu.Unlock()
		select {
		case <-over:
			return os.ErrDeadlineExceeded
		default:
		}
		select {
		case <-c:
			return nil
		case <-over:
			return os.ErrDeadlineExceeded
		case <-moved:
		}
	}
}
