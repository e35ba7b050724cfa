package rsocket

import (
	"sync"
	"time"
)

// deadline is the time at which waiting ends. It can be moved while a call waits.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	ch    chan struct{} // closed when the time has come
	quit  chan struct{} // closed by kill
}

func (d *deadline) init() { d.ch, d.quit = make(chan struct{}), make(chan struct{}) }

// set moves the deadline; the zero time means never.
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

// kill makes the deadline pass now and for ever.
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

// done is closed when the deadline has passed.
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

// waitContext is a context for calls that wait. It is made of channels only, so that waiting does
// not allocate.
type waitContext struct {
	ch   <-chan struct{}
	quit <-chan struct{} // closed with ch if another call waits for this one to end
}

func (c *waitContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c *waitContext) Done() <-chan struct{}       { return c.ch }
func (c *waitContext) Value(any) any               { return nil }

// Quit lets a simulation end the call without a turn: see shard.Shard.Turn.
func (c *waitContext) Quit() <-chan struct{} { return c.quit }
func (c *waitContext) Err() error {
	if isClosed(c.ch) {
		return errCanceled
	}
	return nil
}
