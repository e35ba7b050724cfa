package roce

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// served is a server on one device, and a dialer on the other.
type served struct {
	*Server
	l    *Listener
	d    Dialer
	done chan error // what Serve returned
}

func serveOn(t *testing.T, lc ListenConfig, handle func(context.Context, *Conn) error) *served {
	ds := openDevices(t, 2, verbs.Config{})
	lc.Device = ds[1]
	s := &served{Server: &Server{ListenConfig: lc, Handler: handle}, done: make(chan error, 1)}
	var err error
	s.l, err = s.ListenConfig.Listen(t.Context(), ds[1].Addrs()[0].String()+":0")
	require.NoError(t, err)
	s.d.Device = ds[0]
	go func() { s.done <- s.Serve(rocetest.Context(t), s.l) }()
	for !Serving(s.Server) {
		runtime.Gosched()
	}
	return s
}

func (s *served) dial(t *testing.T) *Conn {
	c, err := s.d.DialAddr(rocetest.Context(t), s.l.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// waitEnding waits until the listener is shut down.
func (s *served) waitEnding() {
	for !s.l.ending() {
	}
}

// Shutdown lets a request that is being answered end, and ends handlers that wait for the next one.
func TestServerShutdown(t *testing.T) {
	ctx := rocetest.Context(t)
	begun, finish := make(chan bool), make(chan bool)
	s := serveOn(t, ListenConfig{
		ConnError: func(_ *Conn, err error) { t.Error(err) },
	}, func(ctx context.Context, c *Conn) error {
		b := make([]byte, 16)
		for {
			n, err := c.Recv(ctx, b)
			if err != nil {
				return err
			}
			if string(b[:n]) == "slow" {
				begun <- true
				<-finish
			}
			if err := errors.Join(ctx.Err(), c.Send(ctx, b[:n])); err != nil {
				return err
			}
		}
	})
	idle, busy := s.dial(t), s.dial(t)
	b := make([]byte, 16)
	require.NoError(t, idle.Send(ctx, []byte("hi")))
	_, err := idle.Recv(ctx, b)
	require.NoError(t, err)
	require.NoError(t, busy.Send(ctx, []byte("slow")))
	<-begun

	short, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Shutdown(short), context.Canceled, "one is at work")
	down := make(chan error)
	go func() { down <- s.Shutdown(ctx) }()
	require.NoError(t, idle.Wait(ctx), "the one that was idle is closed")
	_, err = s.d.DialAddr(ctx, s.l.Addr())
	require.ErrorIs(t, err, ErrConnRefused, "nobody can connect any more")
	require.Equal(t, ConnOpen, busy.Stats().State)
	finish <- true
	n, err := busy.Recv(ctx, b)
	require.NoError(t, err)
	require.Equal(t, "slow", string(b[:n]), "it was answered")
	require.NoError(t, busy.Wait(ctx))
	require.NoError(t, <-down)
	require.ErrorIs(t, <-s.done, ErrServerClosed)
	require.NoError(t, s.Shutdown(ctx), "again")
	l, err := s.ListenConfig.Listen(ctx, s.l.Addr().String())
	require.NoError(t, err)
	require.ErrorIs(t, s.Serve(ctx, l), ErrServerClosed)
	require.NoError(t, l.Close())
}

// Work that takes several messages is let finish.
func TestServerShutdownWork(t *testing.T) {
	ctx := rocetest.Context(t)
	s := serveOn(t, ListenConfig{}, func(ctx context.Context, c *Conn) error {
		c.BeginWork()
		b := make([]byte, 16)
		for range 2 {
			if _, err := c.Recv(ctx, b); err != nil {
				return err
			}
			if err := c.Send(ctx, b); err != nil {
				return err
			}
		}
		c.EndWork()
		c.EndWork() // one too many
		_, err := c.Recv(ctx, b)
		return err
	})
	c := s.dial(t)
	b := make([]byte, 16)
	down := make(chan error)
	for i := range 2 {
		require.NoError(t, c.Send(ctx, []byte("x")))
		_, err := c.Recv(ctx, b)
		require.NoError(t, err)
		if i == 0 {
			go func() { down <- s.Shutdown(ctx) }()
			s.waitEnding()
		}
	}
	require.NoError(t, <-down)
	require.ErrorIs(t, <-s.done, ErrServerClosed)
}

// Close ends handlers at once, and does not wait for them.
func TestServerClose(t *testing.T) {
	ctx := rocetest.Context(t)
	failed := make(chan error, 1)
	s := serveOn(t, ListenConfig{ConnError: func(_ *Conn, err error) { failed <- err }},
		func(ctx context.Context, c *Conn) error {
			c.BeginWork()
			_, err := c.RecvMsg(ctx)
			return err
		})
	c := s.dial(t)
	for len(s.conns.all()) == 0 {
	}
	require.NoError(t, s.Close())
	require.NoError(t, c.Wait(ctx))
	err := <-failed
	require.True(t, errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled), "%v", err)
	require.ErrorIs(t, <-s.done, ErrServerClosed)
	require.NoError(t, s.Close())
}

func TestServerArguments(t *testing.T) {
	ctx := rocetest.Context(t)
	require.ErrorIs(t, (&Server{}).Serve(ctx, nil), ErrInvalidAttr)
	require.Error(t, (&Server{}).ListenAndServe(ctx, "no port"))
	require.NoError(t, (&Server{}).Shutdown(ctx))
}

// A listener waits for the connections that Accept has returned.
func TestListenerShutdown(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		l := listenOn(t, b, ListenConfig{})
		var c, s *Conn
		both(func() {
			var err error
			if s, err = l.Accept(ctx); err != nil {
				t.Error(err)
			}
		}, func() {
			var err error
			c, err = (&Dialer{ConnConfig: ConnConfig{Device: a}}).DialAddr(ctx, l.Addr())
			require.NoError(t, err)
		})
		short, cancel := context.WithCancel(ctx)
		cancel()
		require.ErrorIs(t, l.Shutdown(short), context.Canceled)
		require.NoError(t, c.Send(ctx, []byte("still")))
		n, err := s.Recv(ctx, make([]byte, 8))
		require.NoError(t, err, "a connection without a handler is its owner's")
		require.Equal(t, 5, n)
		require.NoError(t, s.Close())
		require.NoError(t, l.Shutdown(ctx))
		require.ErrorIs(t, second(l.Accept(ctx)), net.ErrClosed)
		require.NoError(t, c.Wait(ctx))
	})
}

// Shutdown of a device waits for what was dialed, too, and lets nothing begin.
func TestShutdownDevice(t *testing.T) {
	ctx := rocetest.Context(t)
	s := serveOn(t, ListenConfig{}, func(ctx context.Context, c *Conn) error { return c.Wait(ctx) })
	c := s.dial(t)
	short, cancel := context.WithCancel(ctx)
	cancel()
	err := Shutdown(short, s.d.Device)
	require.ErrorIs(t, err, context.Canceled, "c is open")
	require.ErrorIs(t, second(s.d.DialAddr(ctx, s.l.Addr())), net.ErrClosed)
	lc := ListenConfig{ConnConfig: ConnConfig{Device: s.d.Device}}
	require.ErrorIs(t, second(lc.Listen(ctx, s.d.Device.Addrs()[0].String()+":0")), net.ErrClosed)
	require.NoError(t, Shutdown(ctx, s.ListenConfig.Device), "its handler waits for nothing")
	require.ErrorIs(t, <-s.done, ErrServerClosed)
	require.NoError(t, c.Wait(ctx))
	require.NoError(t, c.Close())
	require.NoError(t, Shutdown(ctx, s.d.Device))
	require.NoError(t, Shutdown(ctx, s.d.Device), "again")
	require.ErrorIs(t, second(s.d.Device.AllocPD()), net.ErrClosed)
}

// What begins and ends is told once, with addresses; nothing else is.
func TestLogger(t *testing.T) {
	ctx := rocetest.Context(t)
	var mu sync.Mutex
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &out}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	served := make(chan struct{})
	s := serveOn(t, ListenConfig{ConnConfig: ConnConfig{Logger: log}, Handshake: func(r *ConnRequest) error {
		if bytes.HasPrefix(r.PrivateData, []byte("bad")) {
			return errors.New("no")
		}
		return nil
	}}, func(ctx context.Context, c *Conn) error {
		close(served)
		for {
			if _, err := c.RecvMsg(ctx); err != nil {
				return err
			}
		}
	})
	s.d.Logger = log
	c := s.dial(t)
	for range 3 {
		require.NoError(t, c.Send(ctx, []byte("x")))
	}
	<-served // a server that is shut down before does not accept it
	require.NoError(t, c.Close())
	for len(s.conns.all()) > 0 { // the handler sees it
		runtime.Gosched()
	}
	require.NoError(t, s.Shutdown(ctx))
	require.ErrorIs(t, <-s.done, ErrServerClosed)
	mu.Lock()
	defer mu.Unlock()
	text := out.String()
	for what, n := range map[string]int{
		"listening": 1, "connection established": 1, "connection accepted": 1, "connection closed": 2,
		"ended by the peer": 1, "connection failed": 0,
	} {
		require.Equal(t, n, strings.Count(text, what), "%s in %s", what, text)
	}
	require.Contains(t, text, "remote="+s.l.Addr().String())
	require.Contains(t, text, "mtu=")
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// Conns has the connections that are open on a device, at both ends.
func TestConns(t *testing.T) {
	ds := openDevices(t, 2, verbs.Config{})
	require.Empty(t, Conns(ds[0]))
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	require.Equal(t, []*Conn{c}, Conns(ds[0]))
	require.Equal(t, []*Conn{s}, Conns(ds[1]))
	require.NoError(t, c.Close())
	require.Empty(t, Conns(ds[0]))
	require.Empty(t, Conns(nil))
}

// loggedAt calls f when something is logged, in the goroutine that tells of it.
type loggedAt struct {
	slog.Handler
	f func(message string)
}

func (h loggedAt) Handle(_ context.Context, r slog.Record) error {
	h.f(r.Message)
	return nil
}

// Close ends connections that have no handler yet, too: the program may be over before they get
// there.
func TestServerCloseEndsAccepted(t *testing.T) {
	var s *served
	var left []*Conn
	s = serveOn(t,
		ListenConfig{ConnConfig: ConnConfig{Logger: slog.New(loggedAt{slog.Default().Handler(), func(message string) {
			if message == "roce: connection accepted" { // and Accept has not returned
				_ = s.Server.Close()
				left = Conns(s.l.d)
			}
		}})}}, func(context.Context, *Conn) error { return nil })
	c := s.dial(t)
	_, err := c.Recv(rocetest.Context(t), make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, <-s.done, ErrServerClosed)
	require.Empty(t, left)
}
