package sim_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/goroce/goroce/roce/rsocket"
)

// streams sends n streams through the service of streams, and reads them back.
func (c *swarmClient) streams(n int) {
	for tries := 0; n > 0; tries++ {
		if tries > 20 {
			c.w.t.Errorf("%v: %d streams are left after 20 connections", c.h.addr, n)
			return
		}
		d := rsocket.Dialer{Device: c.w.device(c.h), Config: rsocket.Config{KeepAlive: c.w.o.keepAlive}}
		var s *rsocket.Conn
		if !c.call("dial stream", func(ctx context.Context) (err error) {
			s, err = d.DialAddr(ctx, netip.AddrPortFrom(c.w.hosts[0].addr, streamPort))
			return err
		}) {
			time.Sleep(time.Duration(c.rng.Int64N(int64(5 * time.Second))))
			continue
		}
		if c.stream(s) {
			n--
		}
		_ = c.w.typed("close stream", s.Close())
	}
}

// stream sends one stream.
func (c *swarmClient) stream(s *rsocket.Conn) bool {
	want := c.bytes(c.rng.IntN(200_000))
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
	limited := func(f func() error) func(context.Context) error {
		return func(ctx context.Context) error {
			at, _ := ctx.Deadline()
			if err := s.SetDeadline(at); err != nil {
				return err
			}
			return f()
		}
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for off := 0; off < len(want); {
			k := min(1+rng.IntN(30_000), len(want)-off)
			if !c.call("write stream", limited(func() error {
				_, err := s.Write(want[off : off+k])
				return err
			})) {
				return
			}
			off += k
		}
		c.call("close write", limited(s.CloseWrite))
	})
	var got []byte
	ok := c.call("read stream", limited(func() (err error) {
		got, err = io.ReadAll(s)
		return err
	}))
	writer.Wait()
	if n := len(got); !bytes.Equal(got, want[:min(n, len(want))]) || ok && n != len(want) {
		c.w.t.Errorf("%v: %d bytes of %d came back, or others", c.h.addr, n, len(want))
	}
	return ok
}
