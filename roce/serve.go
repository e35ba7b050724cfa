package roce

import (
	"context"
	"errors"

	"github.com/goroce/goroce/roce/verbs"
)

// Serve is [Server.Serve] for a listener with a handler of its own. The handler's error goes to
// [ListenConfig.ConnError] and ends nothing else.
//
// Serve ends when ctx does, or the listener is closed. It then closes the listener, cancels the
// handlers' context, waits for them, and returns the error from [Listener.Accept]. After
// [Listener.Shutdown] it waits for the handlers without cancelling their context, and returns
// [ErrServerClosed].
func (l *Listener) Serve(ctx context.Context, handle func(ctx context.Context, c *Conn) error) error {
	if handle == nil {
		return argError("serve", "handle", "is nil")
	}
	return (&Server{ListenConfig: l.cfg, Handler: handle}).Serve(ctx, l)
}

// Shutdown ends the listener when its work is done. It takes no new connections, refuses those not
// yet accepted, and ends handlers of Serve as [Server.Shutdown] does. It returns when all
// connections of the listener are closed, including those that Accept has returned, or when ctx
// ends, with its error.
func (l *Listener) Shutdown(ctx context.Context) error {
	if !l.valid() {
		return nil
	}
	l.drain()
	if err := l.conns.empty(ctx, l.d); err != nil {
		return &verbs.OpError{Op: "shut down", Local: l.addr, Err: err}
	}
	return nil
}

// drain stops accepting and makes handlers end.
func (l *Listener) drain() {
	l.mu.Lock()
	l.drained = true
	l.mu.Unlock()
	_ = l.Close() // an error of a listener that is over says nothing new
	for _, c := range l.conns.all() {
		c.endServing()
	}
}

// ending reports whether a Shutdown of the listener, its server or its device has begun.
func (l *Listener) ending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drained
}

// SharedMemory returns a handler for [Server] and [Listener.Serve] that shares buf with each
// client, as [Conn.Share] does, until the client hangs up or the server shuts down. All clients see
// the same memory.
func SharedMemory(buf []byte, access verbs.Access) func(ctx context.Context, c *Conn) error {
	return func(ctx context.Context, c *Conn) error {
		_, err := c.Share(ctx, buf, access)
		if errors.Is(err, ErrPeerClosed) {
			return nil // a client may be done before Send learns that it got the message
		}
		if err != nil {
			return err
		}
		return c.Wait(ctx)
	}
}
