package verbs

import (
	"net"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// BenchmarkVeth compares packet links, udp links and TCP over one veth pair, in
// interleaved rounds: bandwidth of WRITEs of 1 MiB, half round trips of 64 B.
func BenchmarkVeth(b *testing.B) {
	for _, c := range []struct {
		name string
		mtu  int
		gso  bool
	}{{"mtu4096", 4200, true}, {"mtu1024", 1500, true}, {"mtu4096,no GSO", 4200, false}} {
		b.Run(c.name, func(b *testing.B) {
			const region = 64 << 20
			n := linktest.NewNet(b, c.mtu)
			var l net.Listener
			var err error
			n.B.Do(func() { l, err = net.Listen("tcp", net.JoinHostPort(n.B4.String(), "0")) })
			require.NoError(b, err)
			defer l.Close()
			go serveTCP(l, region)

			const d = 150 * time.Millisecond
			const trips = 500
			got := make(map[string][]float64)
			add := func(name string, v float64) { got[name] = append(got[name], v) }
			kinds := [][2]string{{"packet", "packet"}, {"udp", "udp"}, {"packet", "udp"}, {"udp", "packet"}}
			for b.Loop() {
				var tcp, tcpTrip float64
				n.A.Do(func() {
					p := &remotePair{end: &end{buf: make([]byte, region)}, peer: peerInfo{TCP: l.Addr().String()}}
					tcp = p.tcp(b, d)
					tcpTrip = percentile(p.tcpRoundTrips(b, trips), 0.5)
				})
				for _, k := range kinds {
					name := k[0] + "-" + k[1]
					x := newEnd(b, openDevice(b, Config{Link: linkIn(b, n.A, k[0], n.A4, c.gso)}), region, QPInitAttr{})
					y := newEnd(b, openDevice(b, Config{Link: linkIn(b, n.B, k[1], n.B4, c.gso)}), region, QPInitAttr{})
					connect(b, x, y)
					p := &remotePair{end: x, peer: peerInfo{Addr: y.mr.Addr(), RKey: uint32(y.mr.RKey())}}
					p.bulk(b, SendWR{Opcode: WRWrite}, 1<<20, 16, 10*time.Millisecond) // warm up
					c0 := cpuSeconds()
					g := p.bulk(b, SendWR{Opcode: WRWrite}, 1<<20, 16, d)
					add(name+":cpu-s/GB", (cpuSeconds()-c0)/(g*d.Seconds()/1e9))
					add(name+"/tcp", g/tcp)
					p.bulk(b, SendWR{Opcode: WRRead, SGList: []SGE{x.mr.SGE(0, 64)}}, 64, 1, 5*time.Millisecond)
					start, trips := time.Now(), 0
					for ; time.Since(start) < 20*time.Millisecond; trips += 20 {
						readTrips(b, p, 20)
					}
					add(name+":trip/tcp", float64(time.Since(start))/2e3/float64(trips)/tcpTrip)
					require.NoError(b, x.d.Close())
					require.NoError(b, y.d.Close())
				}
			}
			b.ReportMetric(0, "ns/op")
			for name, v := range got {
				b.ReportMetric(median(v), name)
			}
		})
	}
}

// readTrips does n READs of 64 B, one after the other.
func readTrips(b *testing.B, p *remotePair, n int) {
	ctx := testContext(b)
	var wcs [1]WC
	for range n {
		require.NoError(b, p.qp.PostSend(&SendWR{
			Opcode: WRRead, Flags: SendSignaled, SGList: []SGE{p.mr.SGE(0, 64)}, RemoteAddr: p.peer.Addr,
			RKey: ib.RKey(p.peer.RKey),
		}))
		_, err := p.cq.Wait(ctx, wcs[:])
		require.NoError(b, err)
		require.NoError(b, WCError(&wcs[0]))
	}
}
