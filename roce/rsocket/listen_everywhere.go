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

// openEverywhere listens at all addresses of the host for which serves returns true.
func (l *Listener) openEverywhere(addr netip.AddrPort, maxConns int, serves func(netip.Addr) bool) error {
	l.ended = make(chan struct{})
	return everyaddr.FindPort(addr, func(addr netip.AddrPort) error { return l.openParts(addr, maxConns, serves) })
}

// openParts is one try.
func (l *Listener) openParts(addr netip.AddrPort, maxConns int, serves func(netip.Addr) bool) error {
	var parts *everyaddr.Set[*Listener]
	budget := everyaddr.NewBudget(maxConns, func() {
		for _, p := range parts.Parts() {
			core.Open(p.ch).Signal().Set()
		}
	})
	parts = everyaddr.New(everyaddr.Actions[*Listener]{
		Serves: serves,
		Begin: func(d *verbs.Device, at netip.AddrPort) (*Listener, uint16, error) {
			p := newListener(l, 0)
			p.dev, p.budget = d, budget
			err := p.open(at, maxConns)
			return p, p.addr.Port(), err
		},
		End: func(p *Listener) { _ = p.Close() }, // its device is closed
		Failed: func(a netip.Addr, err error) {
			if log := roce.DefaultDeviceConfig.Logger; log != nil {
				log.Warn("rsocket: not listening at a new address", slog.Any("local", l.addr),
					slog.Any("addr", a), slog.Any("error", err))
			}
		},
	})
	l.parts = parts
	at, err := parts.Open(addr)
	if err != nil {
		return err
	}
	l.addr = Addr{at}
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
