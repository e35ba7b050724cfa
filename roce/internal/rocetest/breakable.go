package rocetest

import (
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
