package verbs

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/packet"
	"github.com/goroce/goroce/roce/link/udp"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/stretchr/testify/require"
)

// linkIn opens a link in a namespace.
func linkIn(t testing.TB, ns *linktest.Namespace, name string, a netip.Addr, gso bool) link.Link {
	t.Helper()
	var l link.Link
	var err error
	ns.Do(func() {
		switch name {
		case "udp":
			l, err = udp.Open([]netip.Addr{a}, udp.Options{DisableGSO: !gso})
		case "xdp":
			l, err = xdp.Open(xdp.Options{Addrs: []netip.Addr{a}})
		default:
			l, err = packet.Open(packet.Options{Addrs: []netip.Addr{a}, DisableGSO: !gso})
		}
	})
	require.NoError(t, err)
	return l
}

// Every operation between devices on packet and udp links, over a veth pair.
func TestVeth(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		ip6   bool
		noGSO bool
	}{
		{a: "packet", b: "packet"},
		{a: "packet", b: "packet", ip6: true},
		{a: "packet", b: "packet", noGSO: true},
		{a: "packet", b: "udp"},
		{a: "packet", b: "udp", ip6: true},
		{a: "udp", b: "packet"},
		{a: "udp", b: "packet", noGSO: true},
	} {
		if linktest.Before(t, 6, 2) && !c.noGSO && (c.a == "udp" || c.b == "udp") {
			t.Log("before Linux 6.2 runs of a udp link are lost on the way to a packet link: not tested")
			continue
		}
		name := c.a + "-" + c.b
		for text, on := range map[string]bool{" IPv6": c.ip6, " no GSO": c.noGSO} {
			if on {
				name += text
			}
		}
		t.Run(name, func(t *testing.T) {
			n := linktest.NewNet(t, 4200)
			addrA, addrB := n.A4, n.B4
			if c.ip6 {
				addrA, addrB = n.A6, n.B6
			}
			a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, c.a, addrA, !c.noGSO)}), 1<<20, QPInitAttr{})
			b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, c.b, addrB, !c.noGSO)}), 1<<20, QPInitAttr{})
			connect(t, a, b)
			exercise(t, a, b, exerciseSizes)
			for _, e := range []*end{a, b} {
				s := e.d.LinkStats()
				require.Zero(t, s.RxICRC+s.RxMalformed+s.RxTruncated+s.TxUnreachable)
				if e.d == a.d && c.a == "udp" || e.d == b.d && c.b == "udp" || !linktest.Before(t, 6, 2) {
					require.Zero(t, s.GSOFallbacks) // the packet link finds out by its first run
				}
			}
			if c.a == "packet" && c.b == "packet" {
				require.Equal(t, 32, a.d.Capabilities().ICRCBits)
				require.Zero(t, a.d.LinkStats().RxSolved)
			}
		})
	}
}

// The caller's goroutine sends what had to wait for a neighbour, too.
func TestVethPolling(t *testing.T) {
	n := linktest.NewNet(t, 4200)
	a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, "packet", n.A4, true), Polling: true}),
		1<<20, QPInitAttr{})
	b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, "packet", n.B4, true)}), 1<<20, QPInitAttr{})
	connect(t, a, b)
	for _, size := range exerciseSizes {
		write(t, a, b, size)
	}
}

// A neighbour that does not answer fails the work request, and is counted on the queue pair.
func TestVethUnreachable(t *testing.T) {
	seeds.Slow(t)
	n := linktest.NewNet(t, 1500)
	a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, "packet", n.A4, true)}), 1<<12, QPInitAttr{})
	b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, "packet", n.B4, true)}), 1<<12, QPInitAttr{})
	connect(t, a, b)
	write(t, a, b, 100)
	require.Zero(t, a.qp.Unreachable())
	n.B.Run("ip", "addr", "del", n.B4.String()+"/24", "dev", linktest.Device)
	// Not "flush", which begins again as long as there is an entry: the link makes the
	// kernel look for its neighbour at once.
	n.A.Run("ip", "neigh", "del", n.B4.String(), "dev", linktest.Device)
	// Until the neighbour has failed, the MAC that was known is used.
	ctx := testContext(t)
	var wcs [1]WC
	b.see() // the device goes on writing into what the test has read
	for wcs[0].Status == WCSuccess {
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 10)}, RemoteAddr: b.mr.Addr(),
			RKey: b.mr.RKey(),
		}))
		_, err := a.cq.Wait(ctx, wcs[:])
		require.NoError(t, err)
	}
	require.Equal(t, WCRetryExcErr, wcs[0].Status)
	require.NotZero(t, a.qp.Unreachable())
	require.Equal(t, a.d.LinkStats().TxUnreachable, a.qp.Unreachable())
}

// A connection whose own address has gone says so, and does not blame the MTU, although the packets
// were as long as that. TestRetryErrorNamesMTU is about a peer that is silent.
func TestVethAddressGone(t *testing.T) {
	for _, link := range []string{"udp", "packet", "xdp"} {
		for _, six := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, IPv6 %v", link, six), func(t *testing.T) {
				n := linktest.NewNet(t, 1500)
				here, there, bits := n.A4, n.B4, 24
				if six {
					here, there, bits = n.A6, n.B6, 64
				}
				a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, link, here, true)}), 1<<16, QPInitAttr{})
				b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, "udp", there, true)}), 1<<16, QPInitAttr{})
				connect(t, a, b, withTimeout(14, 3))
				write(t, a, b, 10_000)
				n.A.IP("addr del " + netip.PrefixFrom(here, bits).String() + " dev " + linktest.Device)
				b.see() // the device goes on writing into what the test has read
				var err error
				for err == nil { // a link that writes frames goes on until the kernel has told it
					require.NoError(t, a.qp.PostSend(&SendWR{
						Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 10_000)},
						RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
					}))
					wc := a.completion(t, testContext(t))
					err = WCError(&wc)
				}
				require.ErrorIs(t, err, ErrUnreachable)
				require.ErrorContains(t, err, "the address of the connection has gone from here")
				require.NotContains(t, err.Error(), "MTU")
				require.NotZero(t, a.qp.Unreachable())
			})
		}
	}
}

// A device tells of its port going down and up, and of its MTU.
func TestPortEvents(t *testing.T) {
	n := linktest.NewNet(t, 4200)
	a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, "packet", n.A4, true)}), 1<<16, QPInitAttr{})
	b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, "packet", n.B4, true)}), 1<<16, QPInitAttr{})
	connect(t, a, b)
	write(t, a, b, 10_000)
	require.True(t, a.d.Port().Active)
	mtu := a.d.Port().ActiveMTU

	ctx := testContext(t)
	n.B.Run("ip", "link", "set", linktest.Device, "down")
	e, err := a.d.AsyncEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, EventPortError, e.Type)
	require.False(t, a.d.Port().Active)
	n.A.Run("ip", "link", "set", linktest.Device, "mtu", "1500")
	e, err = a.d.AsyncEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, EventPortMTU, e.Type)
	n.B.Run("ip", "link", "set", linktest.Device, "up")
	e, err = a.d.AsyncEvent(ctx)
	require.NoError(t, err)
	require.Equal(t, EventPortActive, e.Type)
	require.True(t, a.d.Port().Active)
	require.Less(t, a.d.Port().ActiveMTU, mtu)
	write(t, b, a, 0) // the connection has survived, and small packets pass
}
