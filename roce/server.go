package roce

import (
	"context"
	"errors"
	"sync"

	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/verbs"
)

// ErrServerClosed is the error of Serve after Shutdown or Close. It also matches the errors of a
// handler's calls that would wait for another message then.
var ErrServerClosed error = access.NewKind("the server is shutting down")

// Server calls a handler for each connection, from one listener or several. Its fields must not
// change once it serves.
type Server struct {
	// ListenConfig is what ListenAndServe listens with. Its ConnError and Logger serve the handlers
	// of all connections.
	ListenConfig ListenConfig

	// Handler is called for each connection, in a goroutine of its own. The connection is closed
	// when it returns. The context ends with that of Serve, and by Close.
	//
	// A panic in it ends this connection and nothing else, as with net/http: it is logged with its
	// stack, and ConnError gets a [*PanicError].
	Handler func(ctx context.Context, c *Conn) error

	mu        sync.Mutex
	listeners map[*Listener]context.CancelFunc
	ending    bool
	conns     connSet
}

// ListenAndServe listens at "host:port" and serves.
func (s *Server) ListenAndServe(ctx context.Context, addr string) error {
	l, err := s.ListenConfig.Listen(ctx, addr)
	if err != nil {
		return err
	}
	return s.Serve(ctx, l)
}

// Serve accepts connections and calls the handler for each. The handler's error goes to ConnError
// and ends nothing else.
//
// Serve ends when ctx does, or the listener is closed: it then closes the listener, cancels the
// handlers' context, waits for them, and returns the error from [Listener.Accept]. After Shutdown
// it waits for the handlers without cancelling their context, and returns [ErrServerClosed]. A
// program may exit once Serve has returned.
func (s *Server) Serve(ctx context.Context, l *Listener) error {
	if s.Handler == nil {
		return argError("serve", "Handler", "is nil")
	}
	if !l.valid() {
		return argError("serve", "l", "was not made by Listen")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !s.enter(l, cancel) {
		_ = l.Close() // the server is shutting down
		return ErrServerClosed
	}
	defer s.leave(l)
	var handlers sync.WaitGroup
	defer handlers.Wait()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			if l.ending() {
				handlers.Wait()
				return ErrServerClosed
			}
			_ = l.Close() // err says why serving ended
			cancel()
			return err
		}
		c.serve(l)
		s.conns.add(c)
		handlers.Go(func() {
			defer s.conns.remove(c)
			s.handle(ctx, c)
		})
	}
}

func (s *Server) handle(ctx context.Context, c *Conn) {
	defer c.Close() // fails only with the device, which Accept reports
	err := s.call(ctx, c)
	if tell := s.ListenConfig.ConnError; err != nil && tell != nil && !errors.Is(err, ErrServerClosed) {
		tell(c, err)
	}
}

// enter records a listener, and reports whether to serve it.
func (s *Server) enter(l *Listener, cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	if s.listeners == nil {
		s.listeners = map[*Listener]context.CancelFunc{}
	}
	s.listeners[l] = cancel
	return true
}

func (s *Server) leave(l *Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

// end makes the server refuse new listeners, and returns those that it serves.
func (s *Server) end() map[*Listener]context.CancelFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	out := make(map[*Listener]context.CancelFunc, len(s.listeners))
	for l, cancel := range s.listeners {
		out[l] = cancel
	}
	return out
}

// Shutdown ends the server when its work is done. It takes no new connections. A handler that waits
// for the next message (in Recv, RecvMsg, Shared or Wait) gets an error that matches
// [ErrServerClosed], unless a message has arrived, and should return; its other calls go on. So a
// handler that answers one message after the other ends between two. If the work for a peer takes
// several messages, bracket it with [Conn.BeginWork] and [Conn.EndWork].
//
// Shutdown returns when all handlers have, or when ctx ends, with its error; Close then ends what
// is left. A message that arrives too late is acknowledged by the device but not answered: the peer
// finds the connection closed.
func (s *Server) Shutdown(ctx context.Context) error {
	listeners := s.end()
	for l := range listeners {
		l.drain()
	}
	for l := range listeners {
		err := l.conns.empty(ctx, l.d)
		if err == nil {
			err = s.conns.empty(ctx, l.d) // until the handlers are done with them
		}
		if err != nil {
			return &verbs.OpError{Op: "shut down", Local: l.addr, Err: err}
		}
	}
	return nil
}

// Close ends the server at once: it closes listeners and connections without waiting for
// operations, and cancels the handlers' context. It does not wait for the handlers.
func (s *Server) Close() error {
	var errs []error
	for l, cancel := range s.end() {
		l.drain()
		cancel()
		// Include connections that Accept has just returned: the process may end before their
		// handlers start.
		for _, c := range l.conns.all() {
			errs = append(errs, c.close(0))
		}
	}
	return errors.Join(errs...)
}

// serve records that a handler of a listener has the connection.
func (c *Conn) serve(l *Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served = true
	c.ending = l.ending() || c.of.ending()
}

// endServing makes the handler end once it waits for another message.
func (c *Conn) endServing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.served && !c.closed {
		c.ending = true
		c.wakeAll()
	}
}

// BeginWork says that the work of a [Server]'s handler needs more messages of the peer: until
// EndWork, Shutdown lets the handler wait for them. Calls nest.
func (c *Conn) BeginWork() { c.addWork(1) }

// EndWork undoes one BeginWork.
func (c *Conn) EndWork() { c.addWork(-1) }

func (c *Conn) addWork(n int) {
	if c.s == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work = max(c.work+n, 0)
	if c.ending && c.work == 0 {
		c.wakeAll()
	}
}
