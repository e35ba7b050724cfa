package rdmacm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// syncConn is the TCP connection beside cmtime, by which the two sides keep step: originals since
// rdma-core 52 have it. At the end of each phase the client sends the number of the step that is
// done, and the server sends it back when it has got as far. A nil syncConn, for older originals,
// is always in step.
type syncConn struct{ c net.Conn }

// syncDialTime is how long a client looks for a server that keeps step.
const syncDialTime = 2 * time.Second

// dialSync connects to the server's TCP port. If nothing listens there, the
// server is an old original.
func dialSync(ctx context.Context, to netip.AddrPort) *syncConn {
	d := net.Dialer{Timeout: syncDialTime}
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil
	}
	return &syncConn{c}
}

// swap is the client's half: it sends the step and waits for the server.
func (s *syncConn) swap(ctx context.Context, step byte) error {
	if s == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = s.c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := s.c.Write([]byte{step}); err != nil {
		return s.err(ctx, "tell", step, err)
	}
	return s.read(ctx, step)
}

// answer is the server's half.
func (s *syncConn) answer(ctx context.Context, step byte) error {
	if s == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = s.c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := s.read(ctx, step); err != nil {
		return err
	}
	if _, err := s.c.Write([]byte{step}); err != nil {
		return s.err(ctx, "tell", step, err)
	}
	return nil
}

func (s *syncConn) read(ctx context.Context, step byte) error {
	var b [1]byte
	if _, err := io.ReadFull(s.c, b[:]); err != nil {
		return s.err(ctx, "wait for", step, err)
	}
	if b[0] != step {
		return fmt.Errorf("the peer is at step %d, this side at %d: another version of cmtime?", b[0], step)
	}
	return nil
}

func (s *syncConn) err(ctx context.Context, what string, step byte, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s the peer, at step %d: %w", what, step, err)
}

func (s *syncConn) close() error {
	if s == nil {
		return nil
	}
	return s.c.Close()
}
