package drill

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/verbs"
)

// Addresses on the engine's wire.
var (
	enginePeer  = addresses("192.0.2.1", "2001:db8::1")
	engineDrill = addresses("192.0.2.2", "2001:db8::2")
	engineOther = addresses("192.0.2.3", "2001:db8::3")
)

func addresses(v4, v6 string) map[peer.Family]netip.Addr {
	return map[peer.Family]netip.Addr{peer.V4: netip.MustParseAddr(v4), peer.V6: netip.MustParseAddr(v6)}
}

// engine is this module's device in virtual time. Each drill has one of its own.
type engine struct{}

// NewEngine returns the target "engine": a device in virtual time, whose clock moves when a drill
// waits. Runs are the same, packet by packet and nanosecond by nanosecond.
func NewEngine() Target { return engine{} }

func (engine) Name() string     { return "engine" }
func (engine) Profile() Profile { return Goroce }
func (engine) Close() error     { return nil }

func (engine) Has(f Feature) bool { return f != quirkRxeFlush }

func (engine) Open(context.Context) (Bench, error) {
	wire := newVirtualLink(enginePeer[peer.V4], enginePeer[peer.V6])
	seed := [32]byte{'d', 'r', 'i', 'l', 'l'}
	dev, err := verbs.Open(verbs.Config{Link: wire, Rand: rand.NewChaCha8(seed)})
	if err != nil {
		return nil, err
	}
	p := peer.GoroceOn(dev, peer.GorocePlace{Addr4: enginePeer[peer.V4], Addr6: enginePeer[peer.V6], Link: "engine"})
	return &engineBench{p: p, wire: wire, cm: &listener{dev: dev, at: enginePeer[peer.V4]}}, nil
}

type engineBench struct {
	p    *peer.Goroce
	wire *virtualLink
	cm   *listener
}

func (b *engineBench) Session() (peer.Session, error)            { return b.p.Open(context.Background()) }
func (b *engineBench) Peer(f peer.Family) netip.Addr             { return enginePeer[f] }
func (b *engineBench) Local(f peer.Family) netip.Addr            { return engineDrill[f] }
func (b *engineBench) Stranger(f peer.Family) netip.Addr         { return engineOther[f] }
func (b *engineBench) Now() time.Duration                        { return time.Duration(b.wire.Now()) }
func (b *engineBench) Silence(asked time.Duration) time.Duration { return asked }
func (b *engineBench) Listen(t peer.Type) (port int, err error)  { return b.cm.listen(t) }
func (b *engineBench) Close() error                              { return errors.Join(b.cm.Close(), b.p.Close()) }

// Uplink drops on the wire, whose end the device is.
func (b *engineBench) Uplink(most int) error {
	b.wire.uplink(most)
	return nil
}

// Send has the device handle the packet, and all that follows from it at once.
func (b *engineBench) Send(d Datagram) error {
	b.wire.push(d)
	return b.settle(b.wire.Now())
}

// settle runs what is due by a time.
func (b *engineBench) settle(limit int64) error {
	for b.wire.step(limit) {
		if err := b.cm.serve(); err != nil {
			return err
		}
	}
	return nil
}

func (b *engineBench) Recv(within time.Duration) (Datagram, bool, error) {
	end := b.wire.Now() + int64(within)
	for {
		if d, ok := b.wire.pop(); ok {
			return d, true, nil
		}
		if !b.wire.step(end) {
			b.wire.pass(end)
			return Datagram{}, false, nil
		}
		if err := b.cm.serve(); err != nil {
			return Datagram{}, false, err
		}
	}
}

func (b *engineBench) Await(within time.Duration, done func(time.Duration) (bool, error)) error {
	end := b.wire.Now() + int64(within)
	for {
		if ok, err := done(0); ok || err != nil {
			return err
		}
		if !b.wire.step(end) {
			b.wire.pass(end)
			return nil
		}
		if err := b.cm.serve(); err != nil {
			return err
		}
	}
}
