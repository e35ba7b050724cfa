package roce

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/goroce/goroce/ib/mad"
)

// ListenConfig are the options of a listener. The zero value is what [Listen]
// uses.
type ListenConfig struct {
	ConnConfig

	// Backlog is how many connection requests may wait for Accept; 0 is the
	// most, 1024. Further ones are not answered, and their senders try again.
	Backlog int

	// Handshake, if set, is called for each request before it is accepted. An
	// error refuses it: the peer gets the private data of a *RejectedError, and its Reason if it has one.
	// It may replace r.Param. It is called from Accept, by one goroutine at a time,
	// and must not call the listener.
	Handshake func(r *ConnRequest) error
}

// ConnRequest is a request for a connection.
type ConnRequest struct {
	Local, Remote netip.AddrPort
	// PrivateData is what the peer sent along: 56 bytes, filled up with zeros.
	PrivateData []byte
	// Peer is what the peer has and wants, from this side's point of view.
	Peer ConnParam
	// Param is what it will be answered; its PrivateData goes to the peer.
	Param ConnParam
}

// Listener takes connections.
type Listener struct {
	cfg  ListenConfig
	d    *Device
	ch   *EventChannel
	id   *CMID
	addr netip.AddrPort

	mu      sync.Mutex
	pending map[*CMID]*Conn // accepted, and not yet confirmed by the peer
	closed  bool
}

// Listen listens at "host:port" for connections of RDMA-CM in port space TCP.
// An empty host stands for all addresses of this one, port 0 for a free one.
func Listen(ctx context.Context, addr string) (*Listener, error) {
	var lc ListenConfig
	return lc.Listen(ctx, addr)
}

// Listen listens at "host:port". The error is an *OpError.
func (lc *ListenConfig) Listen(ctx context.Context, addr string) (*Listener, error) {
	a, err := resolveHostPort(ctx, addr)
	if err != nil {
		return nil, &OpError{Op: "listen", Err: err}
	}
	return lc.ListenAddr(a[0])
}

// ListenAddr is Listen for an address.
func (lc *ListenConfig) ListenAddr(addr netip.AddrPort) (*Listener, error) {
	addr = unmap(addr)
	l := &Listener{cfg: *lc, pending: map[*CMID]*Conn{}}
	if err := l.open(addr); err != nil {
		return nil, &OpError{Op: "listen", Local: addr, Err: err}
	}
	return l, nil
}

func (l *Listener) open(addr netip.AddrPort) (err error) {
	switch {
	case l.cfg.Device != nil:
		l.d = l.cfg.Device
	case l.cfg.PD != nil:
		l.d = l.cfg.PD.d
	default:
		if l.d, err = DefaultDevice(addr.Addr()); err != nil {
			return err
		}
	}
	if l.ch, err = l.d.CreateEventChannel(); err != nil {
		return err
	}
	if l.id, err = l.d.CreateID(l.ch, PortSpaceTCP); err != nil {
		return err
	}
	if err = l.id.BindAddr(addr); err == nil {
		err = l.id.Listen(l.cfg.Backlog)
	}
	if err != nil {
		_ = l.id.Close() // the first error is the one to tell
		return err
	}
	l.addr = l.id.LocalAddr()
	return nil
}

// Addr returns the address and port that the listener listens at.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Accept waits for the next connection. Requests are answered while somebody
// is in Accept; a peer that does not confirm its connection keeps nobody from getting in.
//
// Errors are *OpError: that of the context, or one that matches net.ErrClosed
// after Close. Requests that could not be served are refused without an error
// here.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		e, err := l.ch.Get(ctx)
		if err != nil {
			return nil, &OpError{Op: "accept", Local: l.addr, Err: err}
		}
		if c := l.handle(e); c != nil {
			return c, nil
		}
	}
}

// handle takes one event; it returns a connection that is established.
func (l *Listener) handle(e *CMEvent) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Type == CMConnectRequest {
		if l.closed {
			_ = e.ID.Close()
		} else if c := l.admit(e); c != nil {
			l.pending[e.ID] = c
		} else {
			_ = e.ID.Close()
		}
		return nil
	}
	c := l.pending[e.ID]
	if c == nil {
		return nil
	}
	delete(l.pending, e.ID)
	if e.Type != CMEstablished {
		_ = c.Close() // it never came to be
		return nil
	}
	if e.ID.Migrate(c.ch) != nil {
		return nil // the device is closed, which the next call tells
	}
	return c
}

// admit accepts a request; nil means that it was refused.
func (l *Listener) admit(e *CMEvent) *Conn {
	r := ConnRequest{
		Local: e.ID.LocalAddr(), Remote: e.ID.RemoteAddr(), PrivateData: e.PrivateData, Peer: e.Conn,
		Param: DefaultConnParam(),
	}
	if l.cfg.Param != nil {
		r.Param = *l.cfg.Param
	}
	if l.cfg.Handshake != nil {
		if err := l.cfg.Handshake(&r); err != nil {
			refuse(e.ID, mad.RejectConsumer, err)
			return nil
		}
	}
	c, err := newConn(e.ID, &l.cfg.ConnConfig)
	if err != nil {
		refuse(e.ID, mad.RejectNoResources, err)
		return nil
	}
	c.ready(e.PrivateData)
	if err := e.ID.Accept(&r.Param); err != nil {
		refuse(e.ID, mad.RejectNoResources, err)
		_ = c.Close()
		return nil
	}
	return c
}

// refuse rejects a request for a reason that may say more.
func refuse(id *CMID, reason mad.RejectReason, err error) {
	var private []byte
	var rej *RejectedError
	if errors.As(err, &rej) {
		private = rej.PrivateData
		if rej.Reason != 0 {
			reason = rej.Reason
		}
	}
	// The peer may have given up in the meantime.
	_ = id.RejectReason(reason, private[:min(len(private), MaxRejectPrivate)])
}

// Close ends the listener: calls of Accept return, and requests that nobody
// has accepted are refused. Connections live on. Closing again does nothing.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	errs := []error{l.id.Close()}
	for id, c := range l.pending {
		errs = append(errs, c.Close())
		delete(l.pending, id)
	}
	return errors.Join(append(errs, l.ch.Close())...)
}
