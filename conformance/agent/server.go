package agent

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goroce/goroce/roce/verbs"
)

const (
	// DefaultMaxBytes is what all sessions together may allocate, unless told.
	DefaultMaxBytes = 1 << 30
	// DefaultMaxSessions is how many sessions may be open at a time, unless told.
	DefaultMaxSessions = 64
	// maxStrangers is how many connections may be open that have not said hello. One more ends the
	// oldest of them: a client says hello at once, and what says nothing keeps no client out.
	maxStrangers = 64
	// maxObjects is how many objects a session may have at a time.
	maxObjects = 8192
	// helloTimeout is how long a connection may take to say who it is.
	helloTimeout = 10 * time.Second
)

// Config is what a Server is made with.
type Config struct {
	// Device serves all sessions. It stays the caller's to close.
	Device *verbs.Device
	// Name is the device's name; empty is "goroce".
	Name string
	// Token, if not empty, is what clients have to say.
	Token string
	// MaxBytes and MaxSessions are bounds; 0 is the default.
	MaxBytes    int64
	MaxSessions int
	// Logf, if not nil, is told of clients that come, go, and are refused, by several goroutines.
	Logf func(format string, args ...any)
}

// Server serves an agent's protocol.
type Server struct {
	cfg   Config
	bytes atomic.Int64 // allocated by all sessions

	mu        sync.Mutex
	client    string // whose sessions are open
	admitted  int    // how many
	open      map[net.Conn]bool
	strangers []net.Conn // those of open that have not said hello, the oldest first
}

// New returns a server.
func New(cfg Config) *Server {
	cfg.Name = cmp.Or(cfg.Name, "goroce")
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, DefaultMaxBytes)
	cfg.MaxSessions = cmp.Or(cfg.MaxSessions, DefaultMaxSessions)
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	return &Server{cfg: cfg, open: map[net.Conn]bool{}}
}

// Serve accepts sessions until ctx ends or the listener fails, and ends them. It closes the
// listener. The error is nil if ctx has ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer func() {
		l.Close()
		s.hangUp()
		wg.Wait()
	}()
	for {
		nc, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				nc.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			s.cfg.Logf("agent: %v", err)
			select {
			case <-time.After(100 * time.Millisecond): // no more descriptors, for instance
			case <-ctx.Done():
			}
			continue
		}
		s.remember(nc)
		wg.Go(func() {
			defer s.forget(nc)
			newSession(s, nc).serve()
		})
	}
}

// remember notes a connection that has said nothing yet.
func (s *Server) remember(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[nc] = true
	s.strangers = append(s.strangers, nc)
	if len(s.strangers) > maxStrangers {
		oldest := s.strangers[0]
		s.strangers = slices.Delete(s.strangers, 0, 1)
		s.cfg.Logf("agent: %v said nothing, and made room for %v", oldest.RemoteAddr(), nc.RemoteAddr())
		oldest.Close()
	}
}

func (s *Server) forget(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, nc)
	s.known(nc)
	nc.Close()
}

// known takes a connection from the strangers, if it is one. The caller holds mu.
func (s *Server) known(nc net.Conn) {
	if i := slices.Index(s.strangers, nc); i >= 0 {
		s.strangers = slices.Delete(s.strangers, i, i+1)
	}
}

// hangUp ends all sessions.
func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.open {
		nc.Close()
	}
}

// admit lets a client in, or says why not.
func (s *Server) admit(token, client string, nc net.Conn) error {
	from := nc.RemoteAddr()
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.Token)) != 1 {
		s.cfg.Logf("agent: %v has the wrong token", from)
		return refuse(eacces, "the token is wrong")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted > 0 && s.client != client {
		s.cfg.Logf("agent: %v is refused: another client is at work", from)
		return refuse(ebusy, "another client is at work")
	}
	if s.admitted >= s.cfg.MaxSessions {
		return refuse(eagain, "more than %d sessions", s.cfg.MaxSessions)
	}
	if s.admitted == 0 {
		s.cfg.Logf("agent: %v begins", from)
	}
	s.known(nc)
	s.client = client
	s.admitted++
	return nil
}

// leave undoes admit.
func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admitted--; s.admitted == 0 {
		s.cfg.Logf("agent: the client has gone")
	}
}

// allocate accounts for n bytes, or refuses them.
func (s *Server) allocate(n int64) error {
	if s.bytes.Add(n) > s.cfg.MaxBytes {
		s.bytes.Add(-n)
		return refuse(enomem, "more than %d bytes in all", s.cfg.MaxBytes)
	}
	return nil
}
