package rocetest

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
)

// Breakable is the link of a device that a test breaks.
type Breakable struct {
	link.Link
	mute  atomic.Bool
	why   atomic.Pointer[error]
	Muted chan struct{} // has one when a packet was lost
}

// OpenBreakable opens a device on one.
func OpenBreakable(t testing.TB, cfg verbs.Config) (*verbs.Device, *Breakable) {
	b := &Breakable{Muted: make(chan struct{}, 1)}
	cfg.WrapLink = func(l link.Link) (link.Link, error) {
		b.Link = l
		return b, nil
	}
	return OpenDevice(t, cfg), b
}

// Mute has the link lose what it is given to send.
func (b *Breakable) Mute() { b.mute.Store(true) }

// Break has the link fail with an error.
func (b *Breakable) Break(err error) {
	b.why.Store(&err)
	b.Wake()
}

// BreakUnder breaks the link while calls wait for it. It hands to check why, and what each call
// returns, then and when it is made again.
func (b *Breakable) BreakUnder(calls map[string]func() error, check func(name string, why, err error)) {
	b.Mute() // so that what needs an answer waits
	type end struct {
		name string
		err  error
	}
	ends := make(chan end)
	for name, f := range calls {
		go func() { ends <- end{name, f()} }()
	}
	<-b.Muted
	why := errors.New("cable eaten")
	b.Break(why)
	for range calls {
		e := <-ends
		check(e.name, why, e.err)
	}
	for name, f := range calls {
		check(name+" afterwards", why, f())
	}
}

func (b *Breakable) Unwrap() link.Link { return b.Link }

func (b *Breakable) Send(batch []transport.TxPacket) {
	if !b.mute.Load() {
		b.Link.Send(batch)
		return
	}
	if len(batch) > 0 {
		select {
		case b.Muted <- struct{}{}:
		default:
		}
	}
}

func (b *Breakable) Recv(batch []transport.RxPacket) (int, error) {
	if why := b.why.Load(); why != nil {
		return 0, *why
	}
	return b.Link.Recv(batch)
}
