package roce

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// PanicError reports that a handler of a [Server] or of [Listener.Serve] panicked. Only its
// connection was closed.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // of the goroutine
}

func (e *PanicError) Error() string { return fmt.Sprintf("roce: the handler panicked: %v", e.Value) }

// Unwrap returns the argument of panic, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// call calls the handler and turns a panic into an error. A panic is always logged, by the default
// logger if none was chosen: it is a bug of the program that may show nowhere else.
func (s *Server) call(ctx context.Context, c *Conn) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		e := &PanicError{v, debug.Stack()}
		err = e
		logger := s.ListenConfig.Logger
		if logger == nil {
			logger = slog.Default()
		}
		logger.LogAttrs(ctx, slog.LevelError, "roce: the handler panicked", slog.String("local", c.local.String()),
			slog.String("remote", c.remote.String()), slog.Any("panic", v), slog.String("stack", string(e.Stack)))
	}()
	return s.Handler(ctx, c)
}
