package verbs

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// The device on an interface whose MTU shrinks, without privileges or with, uses what
// is left for new connections.
func TestInterfaceMTUShrinks(t *testing.T) {
	for _, name := range []string{"udp", "packet"} {
		t.Run(name, func(t *testing.T) {
			n := linktest.NewNet(t, 9000)
			a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, name, n.A4, true)}), 1<<20, QPInitAttr{})
			b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, name, n.B4, true)}), 1<<20, QPInitAttr{})
			connect(t, a, b)
			write(t, a, b, 1<<20)
			require.Equal(t, ib.MTU4096, a.d.Port().ActiveMTU)
			ctx := testContext(t)
			for _, x := range []struct {
				ns *linktest.Namespace
				e  *end
			}{{n.A, a}, {n.B, b}} {
				x.ns.Run("ip", "link", "set", linktest.Device, "mtu", "1500")
				awaitMTU(t, ctx, x.e.d, ib.MTU1024)
			}
			qa, qb := second(t, a, b)
			q, _, err := qa.Query()
			require.NoError(t, err)
			require.Equal(t, ib.MTU1024, q.PathMTU)
			a.qp, b.qp = qa, qb
			write(t, a, b, 1<<20)
		})
	}
}

// awaitMTU waits for the event that tells of an MTU.
func awaitMTU(t *testing.T, ctx context.Context, d *Device, want ib.MTU) {
	t.Helper()
	for d.Port().ActiveMTU != want {
		ev, err := d.AsyncEvent(ctx)
		require.NoError(t, err)
		require.Equal(t, EventPortMTU, ev.Type)
	}
}

// A connection that was made before goes on with what still passes. A message that does not
// is refused after one timeout, and the error says why.
func TestConnectionOutgrowsInterface(t *testing.T) {
	for _, name := range []string{"udp", "packet"} {
		t.Run(name, func(t *testing.T) {
			n := linktest.NewNet(t, 9000)
			a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, name, n.A4, true)}), 1<<20, QPInitAttr{})
			b := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.B, name, n.B4, true)}), 1<<20, QPInitAttr{})
			connect(t, a, b)
			write(t, a, b, 1<<20)
			n.A.Run("ip", "link", "set", linktest.Device, "mtu", "1500")
			ctx := testContext(t)
			awaitMTU(t, ctx, a.d, ib.MTU1024)
			write(t, a, b, 1400)
			before := a.d.Counters().Timeouts
			requireTooLong(t, ctx, a, b)
			require.LessOrEqual(t, a.d.Counters().Timeouts-before, uint64(3), "with seven retries")
		})
	}
}

// requireTooLong writes what does not fit the path any more. The device may know of the
// interface's MTU a moment before the way to the peer does, and a veth carries segmented
// frames whatever its MTU: so it writes until that is refused.
func requireTooLong(t *testing.T, ctx context.Context, a, b *end) {
	t.Helper()
	b.see() // what fits into a frame is written before the rest is refused
	wc := WC{}
	for wc.Status == WCSuccess {
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 1<<20)}, RemoteAddr: b.mr.Addr(),
			RKey: b.mr.RKey(),
		}))
		wc = a.completion(t, ctx)
	}
	require.Equal(t, WCLocalLenErr, wc.Status)
	err := WCError(&wc)
	require.ErrorIs(t, err, syscall.EMSGSIZE)
	require.ErrorContains(t, err, "MTU")
}

// behindRouter adds a host behind B of n, which forwards to it over a link of 1500 bytes.
func behindRouter(t *testing.T, n *linktest.Net, six bool) (far *linktest.Namespace, addr netip.Addr) {
	far = linktest.NewNamespace(t)
	from, via, router, behind, bits, forward := n.A4, n.B4, "10.98.0.1", "10.98.0.2", "24", "net.ipv4.ip_forward=1"
	if six {
		from, via, router, behind, bits, forward = n.A6, n.B6, "fd98::1", "fd98::2", "64",
			"net.ipv6.conf.all.forwarding=1"
	}
	add := func(ns *linktest.Namespace, a string) {
		args := []string{"addr", "add", a + "/" + bits, "dev", "narrow"}
		if six {
			args = append(args, "nodad")
		}
		ns.Run("ip", args...)
		ns.Run("ip", "link", "set", "narrow", "up")
	}
	n.B.Run("ip", "link", "add", "narrow", "mtu", "1500", "type", "veth", "peer", "name", "narrow", "mtu",
		"9000", "netns", far.Path())
	add(n.B, router)
	add(far, behind)
	n.B.Run("sysctl", "-qw", forward)
	far.Run("ip", "route", "add", "default", "via", router)
	addr = netip.MustParseAddr(behind)
	n.A.Run("ip", "route", "add", netip.PrefixFrom(addr, addr.BitLen()).String(), "via", via.String())
	linktest.AwaitPath(t, n.A, from, far, addr)
	return far, addr
}

// A router with a smaller MTU behind it says so (ICMP "fragmentation needed", IPv6 "packet too
// big"), and the link hears it.
func TestRouterHasSmallerMTU(t *testing.T) {
	for i, link := range []string{"udp", "packet", "xdp"} {
		for k, six := range []bool{false, true} {
			if testing.Short() && i%2 != k {
				continue // one family each
			}
			t.Run(fmt.Sprintf("%s, IPv6 %v", link, six), func(t *testing.T) {
				n := linktest.NewNet(t, 9000)
				far, behind := behindRouter(t, n, six)
				here := n.A4
				if six {
					here = n.A6
				}
				a := newEnd(t, openDevice(t, Config{Link: linkIn(t, n.A, link, here, true)}), 1<<20, QPInitAttr{})
				b := newEnd(t, openDevice(t, Config{Link: linkIn(t, far, "udp", behind, true)}), 1<<20, QPInitAttr{})
				connect(t, a, b)
				write(t, a, b, 1400)
				requireTooLong(t, testContext(t), a, b)
				connect2, peer := second(t, a, b)
				a.qp, b.qp = connect2, peer
				write(t, a, b, 1400) // the way is fine
			})
		}
	}
}

// A packet of the path MTU that the peer never acknowledges may be too long for the way:
// the error says that it could be that, and only then.
func TestRetryErrorNamesMTU(t *testing.T) {
	for name, c := range map[string]struct {
		op    WROpcode
		bytes int
		says  bool
	}{
		"long write": {WRWrite, 10_000, true}, "long read": {WRRead, 10_000, true},
		"short write": {WRWrite, 1000, false}, "short read": {WRRead, 1000, false},
		"fetch and add": {WRFetchAdd, 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := sim.New(sim.Config{Seed: 1, MTU: ib.MTU4096})
			a, b := simPair(t, f, 1<<16, withTimeout(8, 2))
			f.SetFaults(simAddr(1), simAddr(2), sim.Faults{Loss: 1})
			require.NoError(t, a.qp.PostSend(&SendWR{
				Opcode: c.op, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, c.bytes)},
				RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
			}))
			wc := a.completion(t, testContext(t))
			require.Equal(t, WCRetryExcErr, wc.Status)
			err := WCError(&wc)
			require.ErrorIs(t, err, ErrUnreachable)
			require.NotErrorIs(t, err, syscall.EMSGSIZE)
			require.Equal(t, c.says, strings.Contains(err.Error(), "full path MTU"), err)
		})
	}
}
