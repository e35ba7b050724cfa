package rsocket

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// longPath is a link with a bottleneck and a delay.
type longPath struct {
	mbps, queue int
	trip        time.Duration
	// span is how long is measured, after as long that is not.
	span time.Duration
}

// segmenting is a simulated link on which packets travel as large datagrams: the window is four
// times as large.
type segmenting struct{ *sim.Link }

func (l segmenting) Unwrap() link.Link { return l.Link }

func (l segmenting) Capabilities() link.Capabilities {
	c := l.Link.Capabilities()
	c.GSO = true
	return c
}

func (p longPath) network(t *testing.T, f func(t *testing.T, n *network)) {
	cfg := sim.Config{MTU: ib.MTU1024,
		Up: sim.Pipe{BitsPerSecond: int64(p.mbps) * 1e6, QueueBytes: p.queue * 1500, Latency: p.trip / 2}}
	sim.Test(t, cfg, func(t *testing.T, net *sim.Fabric) {
		n := &network{name: "sim", fabric: net}
		for i, d := range []**verbs.Device{&n.a, &n.b} {
			l, err := net.Link(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}))
			require.NoError(t, err)
			*d, err = verbs.Open(verbs.Config{Link: segmenting{l}})
			require.NoError(t, err)
			defer (*d).Close()
		}
		f(t, n)
	})
}

// stream returns the rate of a stream in Mb/s.
func (p longPath) stream(t *testing.T) (mbps float64) { return p.streams(t, func(*network) {}) }

// streams is stream with a look at the ends before the stream ends.
func (p longPath) streams(t *testing.T, look func(*network)) (mbps float64) {
	p.network(t, func(t *testing.T, n *network) {
		ctx := context.Background()
		l, err := (&ListenConfig{Device: n.b}).ListenAddr(netip.AddrPortFrom(n.b.Addrs()[0], 0))
		require.NoError(t, err)
		var wg sync.WaitGroup
		var got int
		wg.Go(func() {
			s, err := l.AcceptConn()
			if err != nil {
				t.Error(err)
				return
			}
			b := make([]byte, 32<<10)
			start := time.Now()
			for err == nil {
				var k int
				k, err = s.Read(b)
				if at := time.Since(start); at >= p.span && at < p.span+p.span {
					got += k
				}
			}
			_ = s.Close()
		})
		c, err := (&Dialer{Device: n.a}).DialAddr(ctx, l.addr.AddrPort)
		require.NoError(t, err)
		b := make([]byte, 256<<10)
		for start := time.Now(); time.Since(start) < p.span+p.span+p.trip; {
			_, err := c.Write(b)
			require.NoError(t, err)
		}
		look(n)
		require.NoError(t, c.SetLinger(0))
		_ = c.Close()
		wg.Wait()
		require.NoError(t, l.Close())
		mbps = float64(got) * 8 / p.span.Seconds() / 1e6
	})
	return mbps
}

// writes returns the rate of RDMA WRITEs that are always posted.
func (p longPath) writes(t *testing.T) (mbps float64) {
	const size, depth = 64 << 10, 128
	p.network(t, func(t *testing.T, n *network) {
		var mrs [2]*verbs.MR
		var qps [2]*verbs.QP
		var cqs [2]*verbs.CQ
		attr := verbs.DefaultConnAttr()
		attr.MTU = ib.MTU1024
		attr.Timeout = 17
		for i, d := range []*verbs.Device{n.a, n.b} {
			pd, err := d.AllocPD()
			require.NoError(t, err)
			cqs[i], err = d.CreateCQ(depth, nil)
			require.NoError(t, err)
			mrs[i], err = pd.RegisterMR(make([]byte, size), verbs.AccessAll, nil)
			require.NoError(t, err)
			qps[i], err = pd.CreateQP(verbs.QPInitAttr{
				Type: verbs.RC, SendCQ: cqs[i], Caps: verbs.QPCaps{MaxSendWR: depth, MaxRecvWR: 1},
			})
			require.NoError(t, err)
		}
		require.NoError(t, qps[1].Connect(qps[0].LocalInfo(0), &attr))
		require.NoError(t, qps[0].Connect(qps[1].LocalInfo(0), &attr))
		wr := verbs.SendWR{
			Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mrs[0].SGE(0, size)},
			RemoteAddr: mrs[1].Addr(), RKey: mrs[1].RKey(),
		}
		for range depth {
			require.NoError(t, qps[0].PostSend(&wr))
		}
		var wcs [depth]verbs.WC
		got := 0
		for start := time.Now(); ; {
			k, err := cqs[0].Wait(context.Background(), wcs[:])
			require.NoError(t, err)
			at := time.Since(start)
			if at >= p.span+p.span {
				break
			}
			if at >= p.span {
				got += k * size
			}
			for range k {
				require.NoError(t, qps[0].PostSend(&wr))
			}
		}
		mbps = float64(got) * 8 / p.span.Seconds() / 1e6
	})
	return mbps
}

// A stream has the rate of WRITEs where a round trip takes long, although the reader is faster than
// the link: then no data waits to be read when the peer waits for room.
func TestLongPath(t *testing.T) {
	seeds.Long(t)
	for _, p := range []longPath{
		{mbps: 200, queue: 300, trip: 10 * time.Millisecond, span: 600 * time.Millisecond},
		{mbps: 100, queue: 400, trip: 40 * time.Millisecond, span: 2 * time.Second},
		{mbps: 50, queue: 400, trip: 100 * time.Millisecond, span: 2 * time.Second},
	} {
		stream, writes := p.stream(t), p.writes(t)
		t.Logf("%v: %.1f Mb/s, WRITE %.1f", p.trip, stream, writes)
		require.Greater(t, stream, 0.9*writes, p.trip)
	}
}

// Over a short path a stream has no use for a larger receive buffer.
func TestShortPathKeepsBuffer(t *testing.T) {
	seeds.Long(t)
	longPath{mbps: 2000, queue: 400, trip: time.Millisecond / 2, span: 200 * time.Millisecond}.streams(t,
		func(n *network) {
			require.EqualValues(t, firstLarge, Buffers(n.b).Bytes)
		})
}
