package rsocket

import (
	"sync"
	"time"
)

// deadline is a moment after which waiting is over, and which can be moved
// while somebody waits.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ch    chan struct{} // closed when the moment has come
	quit  chan struct{} // closed by kill
}

func (d *deadline) init() { d.ch, d.quit = make(chan struct{}), make(chan struct{}) }

// set moves the deadline; the zero time is never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isClosed(d.quit) {
		return
	}
	if d.timer != nil && !d.timer.Stop() {
		<-d.ch // the timer's function runs, or has run
	}
	d.timer = nil
	over := isClosed(d.ch)
	left := time.Duration(0)
	if !t.IsZero() {
		left = time.Until(t)
	}
	switch {
	case !t.IsZero() && left <= 0:
		if !over {
			close(d.ch)
		}
		return
	case over:
		d.ch = make(chan struct{})
	}
	if !t.IsZero() {
		ch := d.ch
		d.timer = time.AfterFunc(left, func() { close(ch) })
	}
}

// kill makes the moment now and for ever.
func (d *deadline) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isClosed(d.quit) {
		return
	}
	close(d.quit)
	if d.timer != nil && !d.timer.Stop() {
		<-d.ch
	}
	if !isClosed(d.ch) {
		close(d.ch)
	}
}

// done is closed when the moment has come.
func (d *deadline) done() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ch
}

func (d *deadline) passed() bool { return isClosed(d.done()) }

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// waitContext is a context for the calls of package roce that wait, made of a
// channel and nothing else, so that waiting allocates nothing.
type waitContext struct {
	ch   <-chan struct{}
	quit <-chan struct{} // closed with ch if somebody waits for the call to end
}

func (c *waitContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *waitContext) Done() <-chan struct{}       { return c.ch }
func (c *waitContext) Value(any) any               { return nil }

// Quit has a simulation let the call end without a turn: see roce.Device.Turn.
func (c *waitContext) Quit() <-chan struct{} { return c.quit }
func (c *waitContext) Err() error {
	if isClosed(c.ch) {
		return errCanceled
	}
	return nil
}
