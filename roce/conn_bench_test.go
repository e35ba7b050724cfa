package roce

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// BenchmarkConnConnect: connect, accept, close.
func BenchmarkConnConnect(b *testing.B) {
	ctx := rocetest.Context(b)
	ds := openDevices(b, 2, verbs.Config{})
	cc := ConnConfig{RecvDepth: 1, RecvBytes: 64}
	l := listenOn(b, ds[1], ListenConfig{ConnConfig: cc})
	cc.Device = ds[0]
	d := Dialer{ConnConfig: cc}
	done := make(chan struct{})
	n := b.N
	go func() {
		defer close(done)
		for range n {
			s, err := l.Accept(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = s.Recv(ctx, nil)
			_ = s.Close()
		}
	}()
	b.ResetTimer()
	for range n {
		c, err := d.DialAddr(ctx, l.Addr())
		require.NoError(b, err)
		require.NoError(b, c.Close())
	}
	<-done
}

// BenchmarkConnPingPong: a message there and one back.
func BenchmarkConnPingPong(b *testing.B) {
	for _, size := range []int{8, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			ctx := rocetest.Context(b)
			ds := openDevices(b, 2, verbs.Config{})
			c, s := connPair(b, ds[0], ds[1], ConnConfig{})
			n := b.N
			go func() {
				buf := make([]byte, size)
				for range n {
					if _, err := s.Recv(ctx, buf); err != nil {
						return
					}
					if s.Send(ctx, buf) != nil {
						return
					}
				}
			}()
			buf := make([]byte, size)
			b.ReportAllocs()
			b.ResetTimer()
			for range n {
				require.NoError(b, c.Send(ctx, buf))
				_, err := c.Recv(ctx, buf)
				require.NoError(b, err)
			}
		})
	}
}
