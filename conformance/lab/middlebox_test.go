package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/conformance/lab"
	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// Congestion control over real sockets, on every link: two devices in network namespaces of their
// own, and between them the switch of package lab/ether, which marks packets as a congested one
// would. What happens at which rate is the business of the simulations (bench/simreport) and of the
// engine's tests, where time is exact. Here it is shown that marks and notifications travel through
// the kernel, that the rate falls and rises again, and that every counter says what was on the
// wire.

const (
	messageBytes = 64 << 10
	lineRate     = 10 * cc.Gbps
	ecnECT0      = 2
	ecnCE        = 3
	dscpCNP      = 48
	// maxCNPs is when the middlebox stops to mark: enough to cut the rate to a
	// hundredth, not so many that messages take seconds.
	maxCNPs = 8
)

// host is a device in a namespace, on a port of the switch.
type host struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	buf []byte
}

// rig is two hosts with the middlebox between them.
type rig struct {
	t    *testing.T
	ctx  context.Context
	sw   *ether.Switch
	a, b *host

	marking atomic.Bool
	cnps    atomic.Int64 // that b has sent
	marks   *ether.Rule
	posted  uint64
}

// addrs of a and b, by family.
var addrs = map[string][2]string{
	"ipv4": {"10.79.0.1", "10.79.0.2"},
	"ipv6": {"fd79::1", "fd79::2"},
}

// links are those that the tests run on, by name.
var links = map[string]func(netip.Addr) (link.Link, error){
	"udp": func(a netip.Addr) (link.Link, error) { return udp.Open([]netip.Addr{a}, udp.Options{}) },
	"packet": func(a netip.Addr) (link.Link, error) {
		return packet.Open(packet.Options{Addrs: []netip.Addr{a}})
	},
	"xdp": func(a netip.Addr) (link.Link, error) { return xdp.Open(xdp.Options{Addrs: []netip.Addr{a}}) },
}

func newRig(t *testing.T, link, family string, conf cc.Config) *rig {
	if os.Geteuid() != 0 {
		t.Skip("not root: the two ends need network namespaces and tap devices of their own")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, sw: ether.New()}
	t.Cleanup(r.sw.Close)
	r.a = r.host(link, "a", addrs[family][0], transport.Tuning{Congestion: conf, MaxUnackedPackets: 64})
	r.b = r.host(link, "b", addrs[family][1], transport.Tuning{})
	// A kernel may take a second until it uses a new IPv6 interface: 7 retries at 0.5 s.
	attr := verbs.DefaultConnAttr()
	attr.MTU, attr.Timeout = ib.MTU1024, 17
	require.NoError(t, r.a.qp.Connect(r.b.qp.LocalInfo(0), &attr))
	require.NoError(t, r.b.qp.Connect(r.a.qp.LocalInfo(0), &attr))
	r.marks = &ether.Rule{
		Match: ether.Match{From: "a", AnyPSN: true, Func: func(p *ether.Packet) bool {
			return r.marking.Load() && r.cnps.Load() < maxCNPs && p.ECN == ecnECT0
		}},
		Times: -1, Kind: ether.MarkCE,
	}
	r.sw.Add(r.marks, &ether.Rule{
		Match: ether.Match{From: "b", AnyPSN: true, Opcodes: []uint8{ether.OpCNP}, Func: func(*ether.Packet) bool {
			r.cnps.Add(1)
			return false
		}},
		Kind: ether.Observe,
	})
	return r
}

// host opens a device on a link, in a namespace of its own, and plugs it in.
func (r *rig) host(on, name, addr string, tuning transport.Tuning) *host {
	t := r.t
	ns, err := lab.NewNamespace()
	if errors.Is(err, unix.EPERM) {
		t.Skip("each end needs a network namespace, and none may be made here: ", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	ip := netip.MustParseAddr(addr)
	bits := 24
	if ip.Is6() {
		bits = 64
	}
	tap, err := ns.Tap(name+"0", 1500, fmt.Sprintf("%v/%d", ip, bits))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENODEV) {
		t.Skip("the middlebox stands between two tap devices, and none can be made here: ", err)
	}
	require.NoError(t, err)
	_, err = r.sw.Attach(name, tap)
	require.NoError(t, err)
	h := &host{buf: make([]byte, messageBytes)}
	var l link.Link
	err = ns.Do(func() (err error) {
		l, err = links[on](ip)
		return err
	})
	if errors.Is(err, unix.EPERM) {
		t.Skip("the ", on, " link needs a privilege that this process lacks: ", err)
	}
	require.NoError(t, err)
	h.dev, err = verbs.Open(verbs.Config{Link: l, Tuning: tuning})
	if err != nil {
		_ = l.Close()
	}
	require.NoError(t, err)
	t.Log(name, ": ", on, " ", l.Capabilities().Mode)
	t.Cleanup(func() { require.NoError(t, h.dev.Close()) })
	h.pd, err = h.dev.AllocPD()
	require.NoError(t, err)
	h.cq, err = h.dev.CreateCQ(256, nil)
	require.NoError(t, err)
	h.mr, err = h.pd.RegisterMR(h.buf, verbs.AccessAll, nil)
	require.NoError(t, err)
	h.qp, err = h.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: h.cq})
	require.NoError(t, err)
	return h
}

// write sends one message from a to b and waits for its completion.
func (r *rig) write() {
	r.t.Helper()
	r.posted++
	require.NoError(r.t, r.a.qp.PostSend(&verbs.SendWR{
		ID: r.posted, Opcode: verbs.WRWrite, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{r.a.mr.SGE(0, messageBytes)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey(),
	}))
	var wcs [1]verbs.WC
	_, err := r.a.cq.Wait(r.ctx, wcs[:])
	require.NoError(r.t, err)
	require.NoError(r.t, verbs.WCError(&wcs[0]))
	require.Equal(r.t, r.posted, wcs[0].ID)
}

// state is that of a's controller.
func (r *rig) state() cc.State {
	s, ok := r.a.qp.Congestion()
	require.True(r.t, ok)
	return s
}

// slow is the paper's profile with periods of 20 ms and steps of 1 Gb/s: a
// machine that is busy with other things then sees the same as an idle one.
func slow() *cc.Profile {
	p := cc.Paper()
	p.AlphaPeriod, p.IncreasePeriod, p.ByteCounter = 20e6, 20e6, 1e15
	p.AdditiveIncrease = cc.Gbps
	return &p
}

// Marks on the way to b make CNPs on the way back, those cut a's rate, and
// without marks it comes back. b's, a's and the wire's counts are the same.
func TestMarksCutTheRateAndItRecovers(t *testing.T) {
	for _, c := range onEach() {
		t.Run(c.link+"/"+c.family, func(t *testing.T) {
			family := c.family
			r := newRig(t, c.link, family, cc.Config{Algorithm: cc.DCQCNPaper, LineRate: lineRate, Profile: slow()})
			cnps := r.sw.Trace(func(p *ether.Packet) bool { return p.Opcode == ether.OpCNP })
			ce := r.sw.Trace(func(p *ether.Packet) bool { return p.ECN == ecnCE })

			for range 20 {
				r.write()
			}
			require.False(t, r.state().Limiting, "nothing was marked")
			require.Empty(t, cnps.Events())

			began := time.Now()
			r.marking.Store(true)
			least := lineRate
			for r.cnps.Load() < maxCNPs {
				require.NoError(t, r.ctx.Err())
				r.write()
				if s := r.state(); s.Limiting {
					least = min(least, s.Current)
				}
			}
			marked := time.Since(began)
			// The first mark halves the rate. How deep all of them cut depends on how much it
			// recovers between them: a busy machine leaves it 20 ms and more.
			require.LessOrEqual(t, least, lineRate/2)

			recovered := time.Now()
			for r.state().Limiting {
				require.NoError(t, r.ctx.Err())
				r.write()
			}
			t.Logf("%s: %d CE marks, %d CNPs in %v; least rate %.3f Gb/s, line rate again after %v",
				family, r.marks.Hits(), len(cnps.Events()), marked.Round(time.Millisecond), least.Gbit(),
				time.Since(recovered).Round(time.Millisecond))

			ca, cb := r.a.dev.Counters(), r.b.dev.Counters()
			require.Equal(t, len(ce.Events()), r.marks.Hits())
			require.Zero(t, ce.Lost()+cnps.Lost())
			require.EqualValues(t, r.marks.Hits(), cb.CEMarkedPkts, "every mark is seen")
			require.EqualValues(t, len(cnps.Events()), cb.CNPsSent)
			require.EqualValues(t, len(cnps.Events()), ca.CNPsHandled)
			require.NotZero(t, ca.RateCuts)
			require.LessOrEqual(t, ca.RateCuts, ca.CNPsHandled-ca.DropCNP,
				"the paper cuts for each that is about packets that have left, if 25 us have passed")
			require.NotZero(t, ca.PacingHolds)
			require.LessOrEqual(t, len(cnps.Events()), r.marks.Hits())
			require.LessOrEqual(t, int64(len(cnps.Events())), int64(marked)/transport.DefaultCNPGapNs+1, "one a gap")
			for _, e := range cnps.Events() {
				p := e.Pkt
				require.Equal(t, "b", e.From)
				require.EqualValues(t, r.a.qp.Num(), p.QPN)
				require.True(t, p.BECN)
				require.EqualValues(t, ecnECT0, p.ECN)
				require.EqualValues(t, dscpCNP, dscp(p))
				require.Equal(t, make([]byte, 16), p.Body(), "16 reserved bytes")
				require.Equal(t, p.ICRC(), p.GotICRC())
			}
		})
	}
}

// place is a link with a family of addresses.
type place struct{ link, family string }

// onEach are all of them; with -short, and under the race detector, one family each.
func onEach() (all []place) {
	for l := range links {
		for f := range addrs {
			if (testing.Short() || seeds.Race) && (f == "ipv6") != (l == "udp") {
				continue
			}
			all = append(all, place{l, f})
		}
	}
	return all
}

// dscp returns the DSCP of a packet on the wire.
func dscp(p *ether.Packet) uint8 {
	const ip = 14
	if p.Is4() {
		return p.Frame[ip+1] >> 2
	}
	return (p.Frame[ip]<<4 | p.Frame[ip+1]>>4) >> 2
}

// A limited rate is a bound on real time too, with the kernel's timers.
func TestRateIsABound(t *testing.T) {
	for link := range links {
		t.Run(link, func(t *testing.T) { testRateIsABound(t, link) })
	}
}

func testRateIsABound(t *testing.T, link string) {
	p := cc.Paper()
	p.IncreasePeriod, p.ByteCounter = 1e15, 1e15
	const rate = 200 * cc.Mbps
	r := newRig(t, link, "ipv4", cc.Config{Algorithm: cc.DCQCNPaper, LineRate: lineRate, StartRate: rate, Profile: &p})
	const messages = 80
	r.write() // while neighbours are looked for, raw links keep only so many packets
	before := r.a.dev.Counters().SentPkts
	began := time.Now()
	for range messages {
		r.write()
	}
	took := time.Since(began)
	packets := r.a.dev.Counters().SentPkts - before
	const wireBytes = 1024 + 12 + 4 + 66
	// More, and later, if the machine kept an end from running for as long as an ACK timeout.
	require.GreaterOrEqual(t, packets, uint64(messages*messageBytes/1024))
	// The last batch, and what was saved at the start, are not waited for.
	least := time.Duration(float64(packets*wireBytes)*8e9/float64(rate)) - 3*time.Duration(cc.BurstNs) -
		64*1024*8*time.Duration(1e9)/time.Duration(rate)
	require.GreaterOrEqual(t, took, least)
	t.Logf("%v for %v at %d Mb/s", took, time.Duration(float64(packets*wireBytes)*8e9/float64(rate)), rate/cc.Mbps)
}
