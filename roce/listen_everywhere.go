package roce

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/goroce/goroce/roce/internal/everyaddr"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/verbs"
)

// valid reports whether l was made by Listen.
func (l *Listener) valid() bool { return l != nil && (l.s != nil || l.parts != nil) }

// everywhere reports whether a listener is at all addresses of the host rather than those of one
// device. Polled devices have no goroutine that could watch several of them.
func (lc *ListenConfig) everywhere(a netip.Addr) bool {
	return lc.Device == nil && lc.PD == nil && (!a.IsValid() || a.IsUnspecified()) && !DefaultDeviceConfig.Polling
}

// openEverywhere listens at all addresses of the host.
func (l *Listener) openEverywhere(addr netip.AddrPort) error {
	if err := l.checkLimits(); err != nil {
		return err
	}
	l.accepted = shard.NewSignal()
	if err := everyaddr.FindPort(addr, l.openParts); err != nil {
		return err
	}
	l.logState(slog.LevelInfo, "roce: listening")
	return nil
}

// openParts is one try.
func (l *Listener) openParts(addr netip.AddrPort) (err error) {
	var parts *everyaddr.Set[*Listener]
	budget := everyaddr.NewBudget(l.cfg.MaxConns, func() {
		for _, p := range parts.Parts() {
			p.events.Set()
		}
	})
	parts = everyaddr.New(everyaddr.Actions[*Listener]{
		Begin: func(d *verbs.Device, at netip.AddrPort) (*Listener, uint16, error) {
			p := newListener(&l.cfg)
			p.up, p.budget, p.cfg.Device = l, budget, d
			err := p.open(at)
			return p, p.addr.Port(), err
		},
		End: func(p *Listener) { _ = p.Close() }, // its device is closed
		Failed: func(a netip.Addr, err error) {
			if log := cmp.Or(l.cfg.Logger, DefaultDeviceConfig.Logger); log != nil {
				log.Warn("roce: not listening at a new address", slog.Any("local", l.addr),
					slog.Any("addr", a), slog.Any("error", err))
			}
		},
	})
	l.parts = parts
	if l.addr, err = parts.Open(addr); err == nil {
		parts.Follow()
	}
	return err
}

// enter adds a connection to the listener and to the whole it is part of.
func (l *Listener) enter(c *Conn) {
	c.of = l
	for ; l != nil; l = l.up {
		l.conns.add(c)
	}
}

// leave undoes enter.
func (l *Listener) leave(c *Conn) {
	if l.conns.remove(c) {
		l.budget.Give()
	}
	if l.up != nil {
		l.up.conns.remove(c)
	}
}

// takeFromParts returns the next connection established at any address, or nil. The addresses take
// turns.
func (l *Listener) takeFromParts() (*Conn, error) {
	l.mu.Lock()
	closed, failure, turn := l.closed, l.failure, l.turn
	l.turn++
	l.mu.Unlock()
	switch {
	case closed:
		l.accepted.Set() // wake the other calls, too
		return nil, verbs.ErrClosed
	case failure != nil:
		l.accepted.Set()
		return nil, failure
	}
	all := l.parts.Parts()
	for i := range all {
		c, err := all[(turn+i)%len(all)].takeReady()
		if c != nil {
			l.accepted.Set() // another goroutine may go on
			return c, nil
		}
		_ = err // the part is closed: its address is gone
	}
	return nil, nil
}

// waitForParts waits until a part may have a connection.
func (l *Listener) waitForParts(ctx context.Context) error {
	select {
	case <-l.accepted.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// partEnded handles the end of a part. If its address is gone, the listener goes on. Any other
// cause ends the whole listener: it must not go on with one address unserved and no one told.
func (l *Listener) partEnded(p *Listener, why error) {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed || everyaddr.IsGone(why) {
		return
	}
	l.mu.Lock()
	if l.failure == nil {
		l.failure = why
	}
	l.mu.Unlock()
	l.accepted.Set()
}

// closeParts is Close of a listener at all addresses.
func (l *Listener) closeParts() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	errs := []error{l.parts.Close()}
	for _, p := range l.parts.Parts() {
		errs = append(errs, p.Close())
	}
	l.accepted.Set()
	return errors.Join(errs...)
}
