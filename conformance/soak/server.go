package soak

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket"
)

const (
	messageBytes = 16 << 10 // the longest message
	memoryBytes  = 64 << 10 // that each client may write and read
	// keepAlive is how often a server looks whether a silent client is there.
	keepAlive = 2 * time.Second
)

// server sends back what it gets, on both kinds of connections, and lends memory.
type server struct {
	c      *child
	conns  *roce.Listener
	stream *rsocket.Listener
	served sync.WaitGroup
}

func (c *child) serve(ctx context.Context) (*server, error) {
	s := &server{c: c}
	lc := roce.ListenConfig{ConnConfig: c.connConfig()}
	lc.ConnError = func(_ *roce.Conn, err error) {
		if !errors.Is(err, io.EOF) {
			c.failed("client", connKind+" serve", err)
		}
	}
	var err error
	if s.conns, err = lc.ListenAddr(netip.AddrPortFrom(c.Addr, c.Port)); err != nil {
		return nil, err
	}
	sc := rsocket.ListenConfig{Device: c.dev, Config: rsocket.Config{KeepAlive: keepAlive}}
	if s.stream, err = sc.ListenAddr(netip.AddrPortFrom(c.Addr, c.Port+1)); err != nil {
		return nil, err
	}
	s.served.Go(func() { _ = s.conns.Serve(ctx, s.echo) }) // ends with the context
	s.served.Go(s.acceptStreams)
	return s, nil
}

func (c *child) connConfig() roce.ConnConfig {
	return roce.ConnConfig{Device: c.dev, RecvBytes: messageBytes, KeepAlive: keepAlive}
}

// echo lends memory, and sends messages back until the client hangs up.
func (s *server) echo(ctx context.Context, c *roce.Conn) error {
	s.c.open.conns.Add(1)
	defer func() {
		_ = c.Close()
		s.c.open.conns.Add(-1)
	}()
	if _, err := c.Share(ctx, make([]byte, memoryBytes),
		roce.RemoteWrite|roce.RemoteRead|roce.RemoteAtomic); err != nil {
		return err
	}
	for {
		m, err := c.RecvMsg(ctx)
		if err != nil {
			return err
		}
		err = c.Send(ctx, m.Bytes())
		_ = m.Release() // it fails with the connection, which Send has told
		if err != nil {
			return err
		}
	}
}

func (s *server) acceptStreams() {
	for {
		c, err := s.stream.AcceptConn()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.c.failed("client", streamKind+" accept", err)
			}
			return
		}
		s.served.Go(func() { s.echoStream(c) })
	}
}

func (s *server) echoStream(c *rsocket.Conn) {
	s.c.open.streams.Add(1)
	defer s.c.open.streams.Add(-1)
	_, err := io.Copy(struct{ io.Writer }{c}, c)
	if err = errors.Join(err, c.Close()); err != nil && !errors.Is(err, net.ErrClosed) {
		s.c.failed("client", streamKind+" serve", err)
	}
}

func (s *server) rest() said              { return said{What: "resting"} }
func (s *server) resume()                 {}
func (s *server) counts(what string) said { return said{What: what} }

func (s *server) end() {
	_ = s.conns.Close() // the device closes next
	_ = s.stream.Close()
}
