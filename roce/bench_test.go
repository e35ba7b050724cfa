package roce

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchWrite keeps depth WRITEs of size bytes under way, walking through the
// whole buffer, and returns the goodput in bytes per second.
func benchWrite(t testing.TB, a, b *end, op int, size, depth int, d time.Duration) float64 {
	ctx := context.Background()
	var wcs [64]WC
	n, done, inflight := 0, 0, 0
	start := time.Now()
	for {
		for inflight < depth {
			off := n * size % len(a.buf)
			wr := SendWR{
				ID: uint64(n), Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(off, size)},
				RemoteAddr: b.mr.Addr() + uint64(off), RKey: b.mr.RKey(),
			}
			if op == 1 {
				wr.Opcode = WRRead
			}
			require.NoError(t, a.qp.PostSend(&wr))
			n++
			inflight++
		}
		k, err := a.cq.Wait(ctx, wcs[:])
		require.NoError(t, err)
		for i := range wcs[:k] {
			require.NoError(t, WCError(&wcs[i]))
		}
		done += k
		inflight -= k
		if el := time.Since(start); el > d {
			for inflight > 0 {
				k, _ := a.cq.Wait(ctx, wcs[:])
				inflight -= k
			}
			return float64(done) * float64(size) / el.Seconds()
		}
	}
}

// benchTCP sends from a buffer as large to one as large, with writes of 1 MiB.
func benchTCP(t testing.TB, bufBytes int, d time.Duration) float64 {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	total := make(chan int64)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, bufBytes)
		var n int64
		off := 0
		for {
			k, err := io.ReadFull(c, buf[off:off+1<<20])
			n += int64(k)
			if err != nil {
				break
			}
			off = (off + 1<<20) % bufBytes
		}
		total <- n
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	buf := make([]byte, bufBytes)
	start := time.Now()
	off := 0
	for time.Since(start) < d {
		if _, err := c.Write(buf[off : off+1<<20]); err != nil {
			t.Fatal(err)
		}
		off = (off + 1<<20) % bufBytes
	}
	c.Close()
	n := <-total
	return float64(n) / time.Since(start).Seconds()
}

// BenchmarkGoodput interleaves WRITE, READ and Go TCP over loopback, same
// region size, and reports ratios, which is all that means something on a
// shared machine.
func BenchmarkGoodput(b *testing.B) {
	for _, c := range []struct {
		name   string
		region int
		size   int
	}{{"64MiB-region", 64 << 20, 1 << 20}, {"1MiB-region", 1 << 20, 1 << 20}, {"64KiB-msg", 64 << 20, 64 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			x, y := pair(b, c.region, Config{})
			const d = 400 * time.Millisecond
			var w, r, tcp []float64
			for b.Loop() {
				w = append(w, benchWrite(b, x, y, 0, c.size, 16, d))
				tcp = append(tcp, benchTCP(b, c.region, d))
				r = append(r, benchWrite(b, x, y, 1, c.size, 16, d))
			}
			mw, mr, mt := median(w), median(r), median(tcp)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(mw*8/1e9, "write-Gbps")
			b.ReportMetric(mr*8/1e9, "read-Gbps")
			b.ReportMetric(mt*8/1e9, "tcp-Gbps")
			b.ReportMetric(mw/mt, "write/tcp")
			b.ReportMetric(mr/mt, "read/tcp")
		})
	}
}
