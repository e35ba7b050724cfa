package rsocket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/everyaddr"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// ListenConfig has the options of a listener and of the connections that it accepts.
type ListenConfig struct {
	// Device is where to listen; nil is the process's device for the address, see
	// [roce.DefaultDevice].
	Device *verbs.Device
	Config Config
	// Backlog is how many established connections may wait for Accept, at each address. Further
	// requests stay unanswered, so that their senders try again. 0 is 128, up to 65535.
	Backlog int
	// MaxConns is how many connections the listener may have at a time, until they are closed and
	// gone; 0 is any number. Requests beyond the limit wait in the backlog, as with
	// roce.ListenConfig.
	MaxConns int
}

// Listener is a listening rsocket. It is a net.Listener.
//
// A listener at all addresses of the host, without a Device, follows the addresses: see
// [roce.Listener].
type Listener struct {
	parts  *everyaddr.Set[*Listener] // at all addresses: one listener for each, which do the work; nil otherwise
	up     *Listener                 // of a part: the whole listener
	budget *everyaddr.Budget         // of a part: the budget of all parts, MaxConns
	fail   sync.Once                 // at all addresses: closes ended

	dev  *verbs.Device
	cfg  atomic.Pointer[Config]
	id   *rdmacm.ID
	ch   *rdmacm.EventChannel
	addr Addr
	dl   deadline

	// ready holds connections that wait for Accept.
	ready chan *Conn
	// ended is closed when the goroutine has ended; nil if Accept does its work.
	ended chan struct{}

	// pumpMu is held while events are handled; pending has the connections whose handshake is not
	// over.
	pumpMu  lock
	pending map[*rdmacm.ID]*Conn

	closing sync.Once
	closed  chan struct{}
}

// ListenAddr listens on an address. The zero address and the unspecified ones stand for all
// addresses of the device, or of the host if there is no Device; port 0 chooses a free one (see
// [Listener.Addr]).
func (lc *ListenConfig) ListenAddr(addr netip.AddrPort) (*Listener, error) {
	return lc.listenFor(addr, nil)
}

// listenFor is ListenAddr. If addr means all addresses, it listens only at those for which serves
// returns true; nil serves all.
func (lc *ListenConfig) listenFor(addr netip.AddrPort, serves func(netip.Addr) bool) (*Listener, error) {
	l, err := lc.listen(addr, serves)
	if err != nil {
		return nil, opError("listen", Addr{}, Addr{addr}, dialError(err))
	}
	return l, nil
}

func (lc *ListenConfig) listen(addr netip.AddrPort, serves func(netip.Addr) bool) (*Listener, error) {
	if lc == nil {
		lc = &ListenConfig{}
	}
	if err := lc.Config.check("listen"); err != nil {
		return nil, err
	}
	if err := checkRange("listen", "Backlog", lc.Backlog, maxBacklog); err != nil {
		return nil, err
	}
	if lc.MaxConns < 0 {
		return nil, argError("listen", "MaxConns", fmt.Sprintf("%d, and the least is 0", lc.MaxConns))
	}
	l := newListener(nil, cmp.Or(lc.Backlog, defaultBacklog))
	l.setConfig(lc.Config)
	d := lc.Device
	if d == nil && (!addr.Addr().IsValid() || addr.Addr().IsUnspecified()) && !roce.DefaultDeviceConfig.Polling {
		return l, l.openEverywhere(addr, lc.MaxConns, serves)
	}
	if d == nil {
		var err error
		if d, err = roce.DefaultDevice(addr.Addr()); err != nil {
			return nil, err
		}
	}
	l.dev = d
	return l, l.open(addr, lc.MaxConns)
}

func newListener(up *Listener, backlog int) *Listener {
	l := &Listener{up: up, pending: map[*rdmacm.ID]*Conn{}, closed: make(chan struct{})}
	if up != nil {
		l.ready = up.ready
	} else {
		l.ready = make(chan *Conn, backlog)
	}
	l.dl.init()
	return l
}

// open listens on l.dev.
func (l *Listener) open(addr netip.AddrPort, maxConns int) (err error) {
	if l.ch, err = rdmacm.CreateEventChannel(l.dev); err != nil {
		return err
	}
	if l.budget != nil {
		core.Open(l.ch).Gate(l.budget.Take, l.budget.Give)
	}
	if l.id, err = rdmacm.CreateID(l.ch, rdmacm.PortSpaceTCP); err != nil {
		return errors.Join(err, l.ch.Close())
	}
	if err = l.id.BindAddr(addr); err == nil {
		err = l.id.Listen(rdmacm.ListenLimits{MaxConns: maxConns, MaxUntaken: cap(l.ready)})
	}
	if err != nil {
		return errors.Join(err, l.id.Close(), l.ch.Close())
	}
	l.addr = Addr{l.id.LocalAddr()}
	if l.dev.Background() || l.up != nil {
		l.ended = make(chan struct{})
		go l.serve()
	}
	return nil
}

// Addr returns the address of the listener, an Addr.
func (l *Listener) Addr() net.Addr {
	if !l.valid() {
		return nil
	}
	return l.addr
}

// Core is for the packages of this repository that build on this one; it is of no use to others.
func (l *Listener) Core() core.Of[listenerCore] { return core.New(listenerCore{l}) }

// listenerCore is a Listener for programs in another language.
type listenerCore struct{ *Listener }

// SetConfig changes the options of connections requested from now on.
func (l listenerCore) SetConfig(cfg Config) error {
	if !l.valid() {
		return errInvalid
	}
	if err := cfg.check("set"); err != nil {
		return opError("set", Addr{}, l.addr, err)
	}
	l.setConfig(cfg)
	return nil
}

func (l *Listener) setConfig(cfg Config) {
	cfg = cfg.normal()
	l.cfg.Store(&cfg)
}

// valid reports whether l was made by Listen; nil and the zero Listener were not.
func (l *Listener) valid() bool { return l != nil && l.closed != nil }

// config returns the options of connections.
func (l *Listener) config() Config {
	if l.up != nil {
		l = l.up
	}
	return *l.cfg.Load()
}

// SetDeadline sets the time at which Accept gives up with an error that matches
// os.ErrDeadlineExceeded; the zero time means never.
func (l *Listener) SetDeadline(t time.Time) error {
	if !l.valid() {
		return errInvalid
	}
	if isClosed(l.closed) {
		return opError("set", Addr{}, l.addr, net.ErrClosed)
	}
	l.dl.set(t)
	return nil
}

// Accept returns the next connection, a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept with a concrete type.
func (l *Listener) AcceptConn() (*Conn, error) {
	if !l.valid() {
		return nil, errInvalid
	}
	c, err := l.accept()
	if err == nil {
		c.id.Taken() // it no longer waits in the backlog
	}
	return c, opError("accept", Addr{}, l.addr, err)
}

func (l *Listener) accept() (*Conn, error) {
	if l.parts == nil {
		access.Shard(l.dev).Turn(nil)
	}
	late := l.dl.done()
	switch {
	case isClosed(l.closed):
		return nil, net.ErrClosed
	case isClosed(late):
		return nil, errTimeout
	}
	if l.ended == nil {
		return l.acceptHere(late)
	}
	select {
	case c := <-l.ready:
		return c, nil
	case <-late:
	case <-l.ended:
		return nil, l.gone()
	}
	if isClosed(l.closed) {
		return nil, net.ErrClosed
	}
	return nil, errTimeout
}

// acceptHere handles events until a connection is ready.
func (l *Listener) acceptHere(late <-chan struct{}) (*Conn, error) {
	l.pumpMu.Lock()
	defer l.pumpMu.Unlock()
	c, err := l.pump(&waitContext{late, l.dl.quit})
	switch {
	case err == nil:
		return c, nil
	case isClosed(l.closed):
		return nil, net.ErrClosed
	case isClosed(late):
		return nil, errTimeout
	}
	return nil, l.gone()
}

// gone returns why no connection comes any more: the listener is closed, or its device is closed or
// has failed.
func (l *Listener) gone() error {
	if l.dev != nil && !isClosed(l.closed) {
		if why := access.Shard(l.dev).ClosedErr(); why != roce.ErrClosed {
			return why
		}
	}
	return net.ErrClosed
}

// serve is the goroutine of a listener.
func (l *Listener) serve() {
	defer close(l.ended)
	l.pumpMu.Lock()
	defer l.pumpMu.Unlock()
	for {
		c, err := l.pump(context.Background())
		if err != nil {
			if l.up != nil {
				l.up.partEnded(l, err)
			}
			return // closed
		}
		select {
		case l.ready <- c:
		case <-l.closed:
			c.drop()
			return
		}
	}
}

// pump handles events until a connection is ready. What frees memory comes before what takes some:
// the channel hands out requests last. pumpMu is held.
func (l *Listener) pump(ctx context.Context) (*Conn, error) {
	for {
		e, err := l.ch.Get(ctx)
		if err != nil {
			return nil, err
		}
		if c := l.handle(e); c != nil {
			return c, nil
		}
	}
}

// handle handles one event; it returns a connection that is ready.
func (l *Listener) handle(e *rdmacm.Event) *Conn {
	switch c := l.pending[e.ID]; {
	case e.Type == rdmacm.EventConnectRequest:
		l.request(e)
	case c == nil:
		// Of a connection that was given up already.
	case e.Type == rdmacm.EventEstablished:
		delete(l.pending, e.ID)
		if l.adopt(c) {
			return c
		}
	case e.Type != rdmacm.EventTimewaitExit:
		delete(l.pending, e.ID) // the peer lost interest, or vanished
		c.drop()
	}
	return nil
}

// request answers a connection request.
func (l *Listener) request(e *rdmacm.Event) {
	peer, err := parseConnData(e.PrivateData)
	if err != nil {
		_ = e.ID.Close() // the peer is told: rejected by the application
		l.budget.Give()
		return
	}
	cfg := l.config()
	if cfg.TrafficClass != 0 {
		_ = e.ID.SetTypeOfService(cfg.TrafficClass) // fails as Accept will
	}
	c, err := newConn(l.dev, e.ID, nil, cfg)
	if err != nil {
		l.budget.Give()
		return
	}
	c.place = l.budget
	c.meet(peer)
	if err = e.ID.SetHalfOpenCost(cfg.memory()); err == nil {
		err = e.ID.Accept(connParam(c.local()))
	}
	if err != nil {
		c.drop()
		return
	}
	l.pending[e.ID] = c
}

// adopt completes a connection, and gives it an event channel of its own.
func (l *Listener) adopt(c *Conn) bool {
	ch, err := rdmacm.CreateEventChannel(l.dev)
	if err == nil {
		c.ch = ch
		err = c.id.Migrate(ch)
	}
	if err != nil {
		c.drop()
		return false
	}
	c.start()
	return true
}

// drop gives up a connection that no caller has seen.
func (c *Conn) drop() {
	c.mu.Lock()
	c.closed = true // its alarm may go off, as when the device closes, and must find nothing to look at
	c.mu.Unlock()
	c.alarm.Stop()
	_ = c.id.Disconnect(nil) // fails if there is nothing to disconnect
	_ = c.release()          // no caller is interested
}

// Close stops listening: Accept returns an error that matches net.ErrClosed, and connections not
// yet accepted are closed. Accepted connections go on.
func (l *Listener) Close() error {
	if !l.valid() {
		return nil
	}
	if l.parts != nil {
		return l.closeParts()
	}
	var err error
	l.closing.Do(func() {
		close(l.closed)
		l.dl.kill()
		err = errors.Join(l.id.Close(), l.ch.Close())
		if l.ended != nil {
			<-l.ended
		}
		l.pumpMu.Lock()
		defer l.pumpMu.Unlock()
		pending := slices.Collect(maps.Values(l.pending))
		// An order that a simulation repeats.
		slices.SortFunc(pending, func(a, b *Conn) int { return cmp.Compare(a.qp.Num(), b.qp.Num()) })
		for _, c := range pending {
			c.drop()
		}
		clear(l.pending)
		if l.up == nil {
			l.closeReady()
		}
	})
	return opError("close", Addr{}, l.addr, err)
}

// closeReady closes the connections that were not accepted.
func (l *Listener) closeReady() {
	for {
		select {
		case c := <-l.ready:
			_ = c.Close()
		default:
			return
		}
	}
}
