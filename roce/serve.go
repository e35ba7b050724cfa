package roce

import (
	"context"
	"errors"
	"sync"

	"github.com/goroce/goroce/roce/verbs"
)

// Serve accepts connections and calls handle for each, in a goroutine of its
// own. A connection is closed when its handler returns. The handler's error is
// given to [ListenConfig.ConnError] and ends nothing else.
//
// Serve ends when ctx does, or the listener is closed. It then closes the listener, cancels the
// handlers' context, waits for them, and returns the error from [Listener.Accept].
func (l *Listener) Serve(ctx context.Context, handle func(ctx context.Context, c *Conn) error) error {
	if handle == nil {
		return argError("serve", "handle", "is nil")
	}
	var handlers sync.WaitGroup
	defer handlers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			_ = l.Close() // err says why it all ends
			return err
		}
		handlers.Go(func() {
			err := handle(ctx, c)
			if err != nil && l.cfg.ConnError != nil {
				l.cfg.ConnError(c, err)
			}
			_ = c.Close() // it fails only with the device, which Accept tells
		})
	}
}

// SharedMemory returns a handler for [Listener.Serve]: each client may use buf, as
// [Conn.Share] has it, until it hangs up. All of them see the same memory.
func SharedMemory(buf []byte, access verbs.Access) func(ctx context.Context, c *Conn) error {
	return func(ctx context.Context, c *Conn) error {
		_, err := c.Share(ctx, buf, access)
		if errors.Is(err, ErrPeerClosed) {
			return nil // a client may be done before it is known here that it was told
		}
		if err != nil {
			return err
		}
		return c.Wait(ctx)
	}
}
