package roce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/everyaddr"
	"github.com/goroce/goroce/roce/internal/shard"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
)

// ListenConfig are the options of a listener. The zero value is what [Listen] uses.
type ListenConfig struct {
	ConnConfig

	// Backlog is how many connections may wait for Accept at each address, set up or being set up,
	// as in listen(2). Their clients count as connected, even while no call is in Accept. 0 is 128,
	// for which connections with the defaults hold 36 MiB. Requests beyond the limit stay
	// unanswered until Accept makes room: up to 1024 are kept, and the senders of others try again.
	// On a simulated link, and with verbs.Polling, requests are answered only while a call is in
	// Accept. Unconfirmed connections stop counting after 50 ms, so dead peers cannot fill the
	// backlog.
	Backlog int

	// MaxConns is how many open connections the listener may have at a time; 0 is any number. Each
	// holds 288 KiB with the defaults. Requests beyond the limit stay unanswered until one is
	// closed, as with netutil.LimitListener: a client of this package waits for 3 minutes at most,
	// or until its context ends.
	MaxConns int

	// Handshake, if set, is called for each request before it is accepted. An error refuses the
	// request; if it is a *RejectedError, the peer gets its private data, and its Reason if it has
	// one. Handshake may replace r.Param. It may run before any call of Accept, in one goroutine at
	// a time, and must not call the listener.
	Handshake func(r *ConnRequest) error

	// ConnError, if set, receives the errors of the handlers of [Listener.Serve], from their
	// goroutines, before the connection is closed.
	ConnError func(c *Conn, err error)
}

// ConnRequest is a request for a connection.
type ConnRequest struct {
	Local, Remote netip.AddrPort
	// PrivateData is what the peer sent: 56 bytes, padded with zeros.
	PrivateData []byte
	// Peer has the parameters that the peer offers and wants, from this side's point of view.
	Peer rdmacm.ConnParam
	// Param is the answer; its PrivateData goes to the peer.
	Param rdmacm.ConnParam
}

// Listener accepts connections.
//
// A listener at all addresses of the host, without a device or protection domain of its own,
// follows the addresses: it adds those that appear and drops those that go, each on a device that
// is closed with its address. Connections to an address that goes end with an error that matches
// [ErrClosed] and [ErrAddrNotLocal]. With Polling in [DefaultDeviceConfig] it is on one device
// instead, with the addresses at the time of Listen.
type Listener struct {
	parts *everyaddr.Set[*Listener] // at all addresses: one listener for each, which do the work; nil otherwise
	up    *Listener                 // of a part: the whole listener

	cfg    ListenConfig
	d      *verbs.Device
	s      *shard.Shard
	ch     *rdmacm.EventChannel
	id     *rdmacm.ID
	events *shard.Signal // of ch
	addr   netip.AddrPort

	// accepted tells Accept that ready has changed. ended is closed when the goroutine that fills
	// ready has ended; nil if Accept does the work itself.
	accepted *shard.Signal
	ended    chan struct{}

	mu      sync.Mutex
	conns   connSet
	drained bool                 // Shutdown has begun
	failure error                // at all addresses: why a part ended by itself
	turn    int                  // at all addresses: the part that Accept asks first
	budget  *everyaddr.Budget    // of a part: the budget of all parts, MaxConns
	pending map[*rdmacm.ID]*Conn // accepted, not yet confirmed by the peer
	ready   []*Conn              // established, not yet returned by Accept
	closed  bool
}

// Listen listens at "host:port" for connections of RDMA-CM in port space TCP. An empty host stands
// for all addresses of this host, port 0 for a free port; the port may be the name of a TCP
// service.
func Listen(ctx context.Context, addr string) (*Listener, error) {
	var lc ListenConfig
	return lc.Listen(ctx, addr)
}

// Listen listens at "host:port". The error is an *OpError.
func (lc *ListenConfig) Listen(ctx context.Context, addr string) (*Listener, error) {
	a, err := resolveHostPort(ctx, addr)
	if err != nil {
		return nil, &verbs.OpError{Op: "listen", Err: err}
	}
	return lc.ListenAddr(a[0])
}

// ListenAddr is Listen with an address.
func (lc *ListenConfig) ListenAddr(addr netip.AddrPort) (*Listener, error) {
	addr = unmap(addr)
	l := newListener(lc)
	err := lc.check("listen")
	switch {
	case err != nil:
	case lc.everywhere(addr.Addr()):
		err = l.openEverywhere(addr)
	default:
		err = l.open(addr)
	}
	if err != nil {
		return nil, &verbs.OpError{Op: "listen", Local: addr, Err: err}
	}
	return l, nil
}

func newListener(lc *ListenConfig) *Listener {
	return &Listener{cfg: *lc, pending: map[*rdmacm.ID]*Conn{}}
}

func (l *Listener) open(addr netip.AddrPort) (err error) {
	switch {
	case l.cfg.Device != nil:
		l.d = l.cfg.Device
	case l.cfg.PD != nil:
		l.d = l.cfg.PD.Device()
	default:
		if l.d, err = DefaultDevice(addr.Addr()); err != nil {
			return err
		}
	}
	if l.ch, err = rdmacm.CreateEventChannel(l.d); err != nil {
		return err
	}
	l.s, l.events = access.Shard(l.d), core.Open(l.ch).Signal()
	if l.budget != nil {
		core.Open(l.ch).Gate(l.budget.Take, l.budget.Give)
	}
	if l.id, err = rdmacm.CreateID(l.ch, rdmacm.PortSpaceTCP); err != nil {
		return err
	}
	if err = l.id.BindAddr(addr); err == nil {
		err = l.listen()
	}
	if err != nil {
		_ = l.id.Close() // the first error is the one to return
		return err
	}
	l.addr = l.id.LocalAddr()
	if err = useOf(l.d).listen(l); err != nil {
		return errors.Join(err, l.Close())
	}
	l.logState(slog.LevelInfo, "roce: listening")
	if l.d.Background() || l.up != nil {
		l.accepted, l.ended = shard.NewSignal(), make(chan struct{})
		go l.answer()
	}
	return nil
}

// listen begins to accept requests.
func (l *Listener) listen() error {
	if err := l.checkLimits(); err != nil {
		return err
	}
	return l.id.Listen(rdmacm.ListenLimits{MaxConns: l.cfg.MaxConns, MaxUntaken: cmp.Or(l.cfg.Backlog, DefaultBacklog)})
}

func (l *Listener) checkLimits() error {
	switch {
	case l.cfg.Backlog < 0 || l.cfg.Backlog > MaxBacklog:
		return argError("listen", "Backlog", fmt.Sprintf("%d is not in 0..%d", l.cfg.Backlog, MaxBacklog))
	case l.cfg.MaxConns < 0:
		return argError("listen", "MaxConns", fmt.Sprintf("%d, and the least is 0", l.cfg.MaxConns))
	}
	return nil
}

// Addr returns the address and port of the listener.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Accept waits for the next connection. Peers that do not confirm their connections delay others by
// less than a second.
//
// Errors are *OpError: that of the context, or one that matches net.ErrClosed after Close. Requests
// that could not be served are refused, and cause no error here.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	if !l.valid() {
		return nil, &verbs.OpError{Op: "accept", Err: access.ErrZero}
	}
	if l.parts == nil {
		l.s.Turn(nil)
	}
	if err := ctx.Err(); err != nil { // before requests are answered
		return nil, &verbs.OpError{Op: "accept", Local: l.addr, Err: err}
	}
	next, wait := l.advance, func(tries int) error { return l.s.Wait(ctx, l.events.C(), tries) }
	switch {
	case l.parts != nil:
		next, wait = l.takeFromParts, func(int) error { return l.waitForParts(ctx) }
	case l.ended != nil:
		next, wait = l.takeReady, func(tries int) error { return l.s.Wait(ctx, l.accepted.C(), tries) }
	}
	for tries := 0; ; tries++ {
		c, err := next()
		if err == nil && c == nil {
			if err = wait(tries); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, &verbs.OpError{Op: "accept", Local: l.addr, Err: err}
		}
		c.logOpen("accepted")
		return c, nil
	}
}

// answer is the goroutine of a listener on a device that works in the background: it prepares
// connections for Accept.
func (l *Listener) answer() {
	defer close(l.ended)
	for {
		more, err := l.step()
		if err == nil && !more {
			err = l.s.Wait(context.Background(), l.events.C(), 0)
		}
		if err != nil {
			if l.up != nil {
				l.up.partEnded(l, err)
			}
			return // the listener or its device is closed
		}
	}
}

// advance works until a connection is established or nothing is left to do.
func (l *Listener) advance() (*Conn, error) {
	for {
		more, err := l.step()
		if err != nil {
			return nil, err
		}
		if c, err := l.takeReady(); c != nil || err != nil || !more {
			return c, err
		}
	}
}

// takeReady returns the next established connection, or nil.
func (l *Listener) takeReady() (*Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		l.wake() // wake the other calls, too
		return nil, verbs.ErrClosed
	case len(l.ready) == 0:
		return nil, nil
	}
	c := l.ready[0]
	l.ready = slices.Delete(l.ready, 0, 1) // Delete clears the slot, so that it does not keep c alive
	l.wake()                               // another goroutine may go on
	c.id.Taken()
	return c, nil
}

// wake makes one goroutine in Accept, or the answering goroutine, look again.
func (l *Listener) wake() {
	l.events.Set()
	if l.ended != nil {
		l.accepted.Set()
	}
	if l.up != nil {
		l.up.accepted.Set()
	}
}

// step handles all events, then answers one request unless a connection was established: what frees
// memory comes before what takes some. more is false if nothing was left to do.
func (l *Listener) step() (more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.wake()
		return false, verbs.ErrClosed
	}
	ready := len(l.ready)
	for e := core.Open(l.ch).PollEvent(); e != nil; e = core.Open(l.ch).PollEvent() {
		l.handle(e)
	}
	if len(l.ready) > ready {
		l.wake()
		return true, nil
	}
	e := core.Open(l.ch).PollRequest()
	if e == nil {
		return false, nil
	}
	if e.Type != rdmacm.EventConnectRequest {
		if l.handle(e); len(l.ready) > ready {
			l.wake()
		}
		return true, nil
	}
	if c := l.admit(e); c != nil {
		l.pending[e.ID] = c
	} else {
		_ = e.ID.Close()
	}
	return true, nil
}

// handle handles one event.
func (l *Listener) handle(e *rdmacm.Event) {
	c := l.pending[e.ID]
	if c == nil {
		return
	}
	delete(l.pending, e.ID)
	if e.Type != rdmacm.EventEstablished || e.ID.Migrate(c.ch) != nil {
		_ = c.Close() // it failed to establish, or the device is closed
		return
	}
	c.startKeepAlive()
	l.ready = append(l.ready, c)
}

// admit accepts a request; nil means that it was refused.
func (l *Listener) admit(e *rdmacm.Event) *Conn {
	_, private, version := introduction(e.PrivateData)
	r := ConnRequest{
		Local: e.ID.LocalAddr(), Remote: e.ID.RemoteAddr(), PrivateData: private, Peer: e.Conn,
		Param: rdmacm.DefaultConnParam(),
	}
	if l.cfg.Param != nil {
		r.Param = *l.cfg.Param
	}
	if l.cfg.Handshake != nil {
		if err := l.cfg.Handshake(&r); err != nil {
			refuse(e.ID, mad.RejectConsumer, err)
			l.budget.Give()
			l.logState(slog.LevelDebug, "roce: request refused", slog.String("remote", r.Remote.String()),
				slog.Any("error", err))
			return nil
		}
	}
	// Accept's context does not apply: a request being answered is not refused when one caller
	// stops waiting.
	c, err := newConn(context.Background(), e.ID, &l.cfg.ConnConfig)
	if err != nil {
		l.budget.Give()
		return nil // newConn has refused it
	}
	c.ready(e.PrivateData)
	l.enter(c)
	if err = e.ID.SetHalfOpenCost(l.cfg.memory()); err == nil {
		param := &r.Param
		if version > 0 {
			param = c.introducing(param, rdmacm.MaxAcceptPrivate)
		}
		err = e.ID.Accept(param)
	}
	if err != nil {
		refuse(e.ID, mad.RejectNoResources, err)
		_ = c.Close()
		return nil
	}
	return c
}

// refuse rejects a request with reason, or with that of a *RejectedError in err, and its private
// data.
func refuse(id *rdmacm.ID, reason mad.RejectReason, err error) {
	var private []byte
	var rej *rdmacm.RejectedError
	if errors.As(err, &rej) {
		private = rej.PrivateData
		if rej.Reason != 0 {
			reason = rej.Reason
		}
	}
	// The peer may have given up in the meantime.
	_ = id.RejectReason(reason, private[:min(len(private), rdmacm.MaxRejectPrivate)])
}

// Close ends the listener: calls of Accept return, connections not yet accepted are closed, and
// requests are refused. Connections that Accept has returned live on.
func (l *Listener) Close() error {
	if !l.valid() {
		return nil
	}
	if l.parts != nil {
		return l.closeParts()
	}
	err := l.close()
	if l.ended != nil {
		<-l.ended
	}
	return err
}

func (l *Listener) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	useOf(l.d).unlisten(l)
	errs := []error{l.id.Close()}
	for _, c := range l.ready {
		errs = append(errs, c.Close())
	}
	pending := slices.Collect(maps.Values(l.pending))
	// An order that a simulation repeats.
	slices.SortFunc(pending, func(a, b *Conn) int { return cmp.Compare(a.qp.Num(), b.qp.Num()) })
	for _, c := range pending {
		errs = append(errs, c.Close())
	}
	l.ready, l.pending = nil, nil
	l.wake()
	return errors.Join(append(errs, l.ch.Close())...)
}
