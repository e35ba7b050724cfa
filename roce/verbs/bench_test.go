package verbs

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// The benchmarks interleave goroce with Go TCP between the same two processes and report ratios,
// which is all that means something on a shared machine. Run them with -benchtime 15x or more.

func addrs(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func percentile(x []float64, p float64) float64 {
	slices.Sort(x)
	return x[min(int(float64(len(x))*p), len(x)-1)]
}

// bulk keeps depth operations of size bytes under way, walking through the
// whole region, for d, and returns bytes per second.
func (p *remotePair) bulk(t testing.TB, wr SendWR, size, depth int, d time.Duration) float64 {
	ctx := context.Background()
	var wcs [64]WC
	sge := make([]SGE, 1)
	wr.Flags, wr.RKey, wr.SGList = SendSignaled, ib.RKey(p.peer.RKey), sge
	n, done, inflight := 0, 0, 0
	start := time.Now()
	for {
		open := time.Since(start) < d
		for open && inflight < depth {
			off := n * size % len(p.buf)
			sge[0] = p.mr.SGE(off, size)
			wr.RemoteAddr = p.peer.Addr + uint64(off)
			require.NoError(t, p.qp.PostSend(&wr))
			n++
			inflight++
		}
		if inflight == 0 {
			return float64(done) * float64(size) / time.Since(start).Seconds()
		}
		k, err := p.cq.Wait(ctx, wcs[:])
		require.NoError(t, err)
		for i := range wcs[:k] {
			require.NoError(t, WCError(&wcs[i]))
		}
		done += k
		inflight -= k
	}
}

// tcp sends from a region as large with writes of 1 MiB.
func (p *remotePair) tcp(t testing.TB, d time.Duration) float64 {
	c, err := net.Dial("tcp", p.peer.TCP)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte{'s'})
	require.NoError(t, err)
	start := time.Now()
	for off := 0; time.Since(start) < d; off = (off + 1<<20) % len(p.buf) {
		_, err := c.Write(p.buf[off : off+1<<20])
		require.NoError(t, err)
	}
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	el := time.Since(start).Seconds()
	n, err := strconv.Atoi(string(b))
	require.NoError(t, err)
	return float64(n) / el
}

func BenchmarkGoodput(b *testing.B) {
	for _, c := range []struct {
		name         string
		region, size int
		cfg          Config
	}{
		{"1MiB", 64 << 20, 1 << 20, Config{}},
		{"64KiB", 64 << 20, 64 << 10, Config{}},
		{"1MiB-region", 1 << 20, 1 << 20, Config{}},
		{"nospin", 64 << 20, 1 << 20, variants["no spin"]},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newRemotePair(b, c.region, c.cfg)
			const d = 150 * time.Millisecond
			var w, r []float64
			for b.Loop() {
				gw := p.bulk(b, SendWR{Opcode: WRWrite}, c.size, 16, d)
				tcp := p.tcp(b, d)
				gr := p.bulk(b, SendWR{Opcode: WRRead}, c.size, 16, d)
				w, r = append(w, gw/tcp), append(r, gr/tcp)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(w), "write/tcp")
			b.ReportMetric(median(r), "read/tcp")
		})
	}
}

// cpuSeconds is the CPU time of this process.
func cpuSeconds() float64 {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

// BenchmarkCPU compares the CPU seconds per GB of both ends together, in one
// process, with those of TCP.
func BenchmarkCPU(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{{"event", Config{}}, {"nospin", variants["no spin"]}} {
		b.Run(c.name, func(b *testing.B) {
			x, y := pair(b, 64<<20, c.cfg)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			defer l.Close()
			go serveTCP(l, 64<<20)
			p := &remotePair{end: x,
				peer: peerInfo{Addr: y.mr.Addr(), RKey: uint32(y.mr.RKey()), TCP: l.Addr().String()}}
			const d = 150 * time.Millisecond
			var roce, tcp []float64
			for b.Loop() {
				c0 := cpuSeconds()
				g := p.bulk(b, SendWR{Opcode: WRWrite}, 1<<20, 16, d)
				c1 := cpuSeconds()
				roce = append(roce, (c1-c0)/(g*d.Seconds()/1e9))
				c0 = cpuSeconds()
				g = p.tcp(b, d)
				tcp = append(tcp, (cpuSeconds()-c0)/(g*d.Seconds()/1e9))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(roce), "s/GB")
			b.ReportMetric(median(roce)/median(tcp), "cpu/tcp")
		})
	}
}

// roundTrips returns half of each of n round trips of 64 B, in microseconds.
func (p *remotePair) roundTrips(t testing.TB, n int) []float64 {
	ctx := context.Background()
	recv := RecvWR{SGList: []SGE{p.mr.SGE(0, 64)}}
	send := SendWR{Opcode: WRSend, SGList: []SGE{p.mr.SGE(64, 64)}}
	require.NoError(t, p.qp.PostRecv(&recv))
	half := make([]float64, 0, n)
	var wcs [1]WC
	for range n {
		start := time.Now()
		if err := p.qp.PostSend(&send); err != nil {
			t.Fatal(err)
		}
		if _, err := p.cq.Wait(ctx, wcs[:]); err != nil {
			t.Fatal(err)
		}
		half = append(half, float64(time.Since(start))/2e3)
		if err := p.qp.PostRecv(&recv); err != nil {
			t.Fatal(err)
		}
	}
	return half
}

func (p *remotePair) tcpRoundTrips(t testing.TB, n int) []float64 {
	c, err := net.Dial("tcp", p.peer.TCP)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte{'e'})
	require.NoError(t, err)
	var b [64]byte
	half := make([]float64, 0, n)
	for range n {
		start := time.Now()
		_, err := c.Write(b[:])
		require.NoError(t, err)
		_, err = io.ReadFull(c, b[:])
		require.NoError(t, err)
		half = append(half, float64(time.Since(start))/2e3)
	}
	return half
}

func BenchmarkLatency(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{{"event", Config{}}, {"nospin", variants["no spin"]}, {"polling", Config{Polling: true}}} {
		b.Run(c.name, func(b *testing.B) {
			p := newRemotePair(b, 1<<20, c.cfg)
			const n = 1000
			var p50, p99, tcp50 []float64
			p.roundTrips(b, n)
			for b.Loop() {
				r := p.roundTrips(b, n)
				p50, p99 = append(p50, percentile(r, 0.5)), append(p99, percentile(r, 0.99))
				tcp50 = append(tcp50, percentile(p.tcpRoundTrips(b, n), 0.5))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(p50), "p50-us")
			b.ReportMetric(median(p99)/median(p50), "p99/p50")
			b.ReportMetric(median(tcp50), "tcp-p50-us")
			b.ReportMetric(median(p50)/median(tcp50), "p50/tcp")
		})
	}
}

// BenchmarkMessages counts 64 B WRITEs a second on one QP, posted in batches
// of which the last is signalled.
func BenchmarkMessages(b *testing.B) {
	for _, batch := range []int{1, 32} {
		b.Run("batch"+itoa(batch), func(b *testing.B) {
			x := newEnd(b, openDevice(b, Config{}), 1<<16, QPInitAttr{Caps: QPCaps{MaxSendWR: 512}})
			y := newEnd(b, openDevice(b, Config{}), 1<<16, QPInitAttr{})
			connect(b, x, y)
			ctx := context.Background()
			wrs := make([]SendWR, batch)
			for i := range wrs {
				wrs[i] = SendWR{
					Opcode: WRWrite, SGList: []SGE{x.mr.SGE(i*64, 64)},
					RemoteAddr: y.mr.Addr() + uint64(i*64), RKey: y.mr.RKey(),
				}
			}
			wrs[batch-1].Flags = SendSignaled
			var wcs [64]WC
			inflight, done := 0, 0
			for b.Loop() {
				for inflight < 256/batch {
					if _, err := x.qp.PostSendBatch(wrs); err != nil {
						b.Fatal(err)
					}
					inflight++
				}
				k, err := x.cq.Wait(ctx, wcs[:])
				if err != nil {
					b.Fatal(err)
				}
				inflight -= k
				done += k
			}
			b.ReportMetric(float64(done*batch)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
			s := x.d.LinkStats()
			b.ReportMetric(float64(s.TxPackets)/float64(s.TxDatagrams), "pkts/datagram")
		})
	}
}
