package rsocket

import (
	"errors"
	"log/slog"
	"net/netip"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/everyaddr"
	"github.com/goroce/goroce/roce/verbs"
)

// portTries is how many ports are tried that are free at the first address but not at all of them.
const portTries = 16

// openEverywhere listens at all addresses of the host for which serves returns true.
func (l *Listener) openEverywhere(addr netip.AddrPort, maxConns int, serves func(netip.Addr) bool) (err error) {
	l.ended = make(chan struct{})
	for try := 0; ; try++ {
		if err = l.openParts(addr, maxConns, serves); err == nil || addr.Port() != 0 || try == portTries || !errors.Is(err, roce.ErrAddrInUse) {
			return err
		}
	}
}

// openParts is one try. If addr has no port, it takes one that is free at the first address.
func (l *Listener) openParts(addr netip.AddrPort, maxConns int, serves func(netip.Addr) bool) error {
	port, any := addr.Port(), netip.IPv6Unspecified()
	var parts *everyaddr.Set[*Listener]
	budget := everyaddr.NewBudget(maxConns, func() {
		for _, p := range parts.Parts() {
			core.Open(p.ch).Signal().Set()
		}
	})
	parts = everyaddr.New(everyaddr.Actions[*Listener]{
		Serves: serves,
		Begin: func(d *verbs.Device, a netip.Addr) (*Listener, error) {
			p := newListener(l, 0)
			p.dev, p.budget = d, budget
			if err := p.open(netip.AddrPortFrom(a, port), maxConns); err != nil {
				return nil, err
			}
			if port = p.addr.Port(); a.Is4() {
				any = netip.IPv4Unspecified()
			}
			return p, nil
		},
		End: func(p *Listener) { _ = p.Close() }, // its device is closed
		Failed: func(a netip.Addr, err error) {
			if log := roce.DefaultDeviceConfig.Logger; log != nil {
				log.Warn("rsocket: not listening at a new address", slog.Any("local", l.addr), slog.Any("addr", a), slog.Any("error", err))
			}
		},
	})
	l.parts = parts
	if err := parts.Open(); err != nil {
		for _, p := range parts.Parts() {
			_ = p.Close() // err is the one to return
		}
		return err
	}
	if addr.Addr().IsValid() {
		any = addr.Addr()
	}
	l.addr = Addr{netip.AddrPortFrom(any, port)}
	parts.Follow()
	return nil
}

// partEnded handles the end of a part. If its address is gone, the listener goes on. Any other
// cause ends the whole listener: it must not go on with one address unserved and no one told.
func (l *Listener) partEnded(p *Listener, why error) {
	if !isClosed(p.closed) && !everyaddr.IsGone(why) {
		l.fail.Do(func() { close(l.ended) })
	}
}

// closeParts is Close of a listener at all addresses.
func (l *Listener) closeParts() error {
	var errs []error
	l.closing.Do(func() {
		close(l.closed)
		l.dl.kill()
		errs = append(errs, l.parts.Close())
		for _, p := range l.parts.Parts() {
			errs = append(errs, p.Close())
		}
		l.fail.Do(func() { close(l.ended) })
		l.closeReady()
	})
	return opError("close", Addr{}, l.addr, errors.Join(errs...))
}
