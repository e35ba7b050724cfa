package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/rsocket"
)

// random fills b.
func random(r *rand.Rand, b []byte) {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(r.Uint32())
	}
	_, _ = rand.NewChaCha8(seed).Read(b) // cannot fail
}

// length is up to most, and small as often as not.
func length(r *rand.Rand, most int) int {
	if r.IntN(2) == 0 {
		return r.IntN(256)
	}
	return r.IntN(most + 1)
}

// conn is a session over roce.Conn.
type conn struct {
	c      *roce.Conn
	memory roce.RemoteMemory
	word   uint64 // what the first 8 bytes of the memory hold
	out    []byte
	in     []byte
}

func (c *child) dialConn(ctx context.Context, to netip.AddrPort) (session, error) {
	d := roce.Dialer{ConnConfig: c.connConfig()}
	rc, err := d.DialAddr(ctx, to)
	if err != nil {
		return nil, err
	}
	s := &conn{c: rc, out: make([]byte, memoryBytes), in: make([]byte, memoryBytes)}
	if s.memory, err = rc.Shared(ctx); err != nil {
		return nil, errors.Join(err, rc.Close())
	}
	return s, nil
}

func (s *conn) exchange(ctx context.Context, r *rand.Rand) error {
	switch r.IntN(4) {
	case 0:
		return s.memoryExchange(ctx, r)
	case 1:
		return s.add(ctx, r.Uint64())
	}
	out := s.out[:length(r, messageBytes)]
	random(r, out)
	if err := s.c.Send(ctx, out); err != nil {
		return err
	}
	n, err := s.c.Recv(ctx, s.in)
	if err != nil {
		return err
	}
	return compare("message", s.in[:n], out)
}

// memoryExchange writes to the server's memory, behind the word, and reads it back.
func (s *conn) memoryExchange(ctx context.Context, r *rand.Rand) error {
	out := s.out[:length(r, memoryBytes-8)]
	random(r, out)
	place := s.memory
	off := 8 + r.IntN(memoryBytes-8-len(out)+1)
	place.Addr, place.Len = place.Addr+uint64(off), place.Len-uint32(off)
	if err := s.c.Write(ctx, out, place); err != nil {
		return err
	}
	in := s.in[:len(out)]
	if err := s.c.Read(ctx, in, place); err != nil {
		return err
	}
	return compare("memory", in, out)
}

func (s *conn) add(ctx context.Context, delta uint64) error {
	was, err := s.c.FetchAdd(ctx, s.memory, delta)
	if err != nil {
		return err
	}
	if was != s.word {
		return &wrongError{fmt.Sprintf("FETCH_ADD found %#x instead of %#x", was, s.word)}
	}
	s.word += delta
	return nil
}

// end closes in order, or with a call that waits for nothing, or with operations under way.
func (s *conn) end(r *rand.Rand) {
	switch r.IntN(3) {
	case 1:
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_, _ = s.c.Recv(ctx, s.in) // nothing comes
		cancel()
	case 2:
		if mr, err := s.c.Register(s.out, 0); err == nil {
			for range 4 {
				_, _ = s.c.StartWrite(context.Background(), s.memory, mr.SGE(0, len(s.out))) // Close ends them
			}
		}
	}
	_ = s.c.Close() // of a connection that may be over in any way
}

// stream is a session over rsocket.Conn.
type stream struct {
	c       *rsocket.Conn
	out, in []byte
}

const streamBytes = 48 << 10 // of an exchange, at most: less than the buffers hold

func (c *child) dialStream(ctx context.Context, to netip.AddrPort) (session, error) {
	d := rsocket.Dialer{Device: c.dev, Config: rsocket.Config{KeepAlive: keepAlive}}
	rc, err := d.DialAddr(ctx, to)
	if err != nil {
		return nil, err
	}
	return &stream{c: rc, out: make([]byte, streamBytes), in: make([]byte, streamBytes)}, nil
}

func (s *stream) exchange(ctx context.Context, r *rand.Rand) error {
	at, _ := ctx.Deadline()
	if err := s.c.SetDeadline(at); err != nil {
		return err
	}
	out := s.out[:length(r, streamBytes)]
	random(r, out)
	for rest := out; len(rest) > 0; { // in pieces
		n := min(len(rest), 1+r.IntN(streamBytes/2))
		if _, err := s.c.Write(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	in := s.in[:len(out)]
	if _, err := io.ReadFull(s.c, in); err != nil {
		return err
	}
	return compare("stream", in, out)
}

// end closes at once, after a half-close and the peer's, by a reset, or with data that nobody
// reads.
func (s *stream) end(r *rand.Rand) {
	switch r.IntN(4) {
	case 1:
		if s.c.SetDeadline(time.Now().Add(opTime)) == nil && s.c.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, s.c)
		}
	case 2:
		_ = s.c.SetLinger(0) // fails as Close will
	case 3:
		if s.c.SetDeadline(time.Now().Add(opTime)) == nil {
			_, _ = s.c.Write(s.out)
		}
	}
	_ = s.c.Close() // of a connection that may be over in any way
}

// compare returns an error if what came back is not what was sent.
func compare(what string, got, want []byte) error {
	if len(got) != len(want) {
		return &wrongError{fmt.Sprintf("%s: %d bytes came back of %d", what, len(got), len(want))}
	}
	if bytes.Equal(got, want) {
		return nil
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	return &wrongError{fmt.Sprintf("%s: byte %d of %d is %#x instead of %#x", what, i, len(got), got[i], want[i])}
}
