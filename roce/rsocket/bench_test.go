package rsocket

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// Reading and writing allocate nothing once they are going.
func TestNoAllocs(t *testing.T) {
	n := udpNetwork(t)
	c, s := n.pair(t, Config{})
	out, in := make([]byte, 20_000), make([]byte, 20_000)
	trip := func() {
		if _, err := c.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, in); err != nil {
			t.Fatal(err)
		}
	}
	trip()
	// Both devices' goroutines count, too.
	require.Less(t, testing.AllocsPerRun(200, trip), 1.0)
}

func benchPair(b *testing.B) map[string][2]net.Conn {
	n := udpNetwork(b)
	c, s := n.pair(b, Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	tc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	ts, err := l.Accept()
	require.NoError(b, err)
	b.Cleanup(func() { tc.Close(); ts.Close() })
	return map[string][2]net.Conn{"rsocket": {c, s}, "tcp": {tc, ts}}
}

// One direction; TCP of the kernel on loopback beside it.
func BenchmarkStream(b *testing.B) {
	for name, p := range benchPair(b) {
		for _, size := range []int{64, 4096, 1 << 16, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				done := make(chan error, 1)
				go func() {
					buf := make([]byte, 1<<16)
					for left := size * b.N; left > 0; {
						k, err := p[1].Read(buf[:min(left, len(buf))])
						if err != nil {
							done <- err
							return
						}
						left -= k
					}
					done <- nil
				}()
				buf := make([]byte, size)
				for range b.N { // which the reader has to know
					if _, err := p[0].Write(buf); err != nil {
						b.Fatal(err)
					}
				}
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// There and back.
func BenchmarkPingPong(b *testing.B) {
	for name, p := range benchPair(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			go func() { _, _ = io.CopyBuffer(struct{ io.Writer }{p[1]}, struct{ io.Reader }{p[1]}, make([]byte, 64)) }()
			buf := make([]byte, 64)
			for b.Loop() {
				if _, err := p[0].Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(p[0], buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
