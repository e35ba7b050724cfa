package linktest

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// RunNetwork tests that a link that writes frames follows what becomes of the
// network around it: neighbours, routes, interfaces.
func RunNetwork(t *testing.T, open Opener) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    func(t *testing.T, open Opener)
	}{
		{"neighbour changes", testNeighbourChanges},
		{"stale neighbour", testStaleNeighbour},
		{"routes", testRoutes},
		{"MAC address", testMACChange},
		{"down and up", testDownAndUp},
		{"MTU", RunMTUChange},
		{"removed", testRemoved},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.f(t, open)
		})
	}
}

func unreachable(l link.Link) uint64 { return l.Stats().TxUnreachable }

// reachable reports whether A's kernel has B's address as reachable.
func (n *Net) reachable() bool {
	return strings.Contains(n.A.Run("ip", "neigh", "show", n.B4.String()), "REACHABLE")
}

// A neighbour that disappears from the table is resolved again, one that
// fails is reported, and one that gets another MAC is followed.
func testNeighbourChanges(t *testing.T, open Opener) {
	n, a, b := open.OpenPair(t, 1500)
	// On a busy machine an answer may take longer than the 100 ms after which neighbours fail here.
	n.neighboursFailAfter(n.A, time.Minute)
	p := NewPath(a, b)
	Reaches(t, a, b, p)
	require.Zero(t, unreachable(a))

	// Removed: the kernel has it again. It says first that the entry has failed, and then that it
	// is gone: packets in between count as unreachable.
	n.A.Run("ip", "neigh", "del", n.B4.String(), "dev", Device)
	SendUntil(t, a, p, n.reachable)
	Reaches(t, a, b, p)

	before := unreachable(a)
	// Nobody there any more: failed after the probes, and counted.
	n.neighboursFailAfter(n.A, 100*time.Millisecond)
	n.B.Run("ip", "addr", "del", n.B4.String()+"/24", "dev", Device)
	n.A.Run("ip", "neigh", "del", n.B4.String(), "dev", Device)
	SendUntil(t, a, p, func() bool { return unreachable(a) > before })
	// Back: the next try finds it.
	n.B.Run("ip", "addr", "add", n.B4.String()+"/24", "dev", Device)
	Reaches(t, a, b, p)
}

// B gets another MAC, as after a failover, and A's kernel hears of it.
func testMACChange(t *testing.T, open Opener) {
	const mac = "02:00:00:00:99:33"
	n, a, b := open.OpenPair(t, 1500)
	p := NewPath(a, b)
	Reaches(t, a, b, p)
	n.B.Run("ip", "link", "set", Device, "address", mac)
	n.A.Run("ip", "neigh", "replace", n.B4.String(), "lladdr", mac, "dev", Device, "nud", "reachable")
	Reaches(t, a, b, p)
	// What B sends has it, too.
	Reaches(t, b, a, NewPath(b, a))
}

// A stale entry is confirmed while it is in use.
func testStaleNeighbour(t *testing.T, open Opener) {
	n, a, b := open.OpenPair(t, 1500)
	n.A.SetSysctl("ipv4/neigh/"+Device+"/delay_first_probe_time", 0)
	n.neighboursFailAfter(n.A, time.Minute) // which no packet may see
	p := NewPath(a, b)
	Reaches(t, a, b, p)
	n.A.Run("ip", "neigh", "change", n.B4.String(), "lladdr", n.MACB, "dev", Device, "nud", "stale")
	SendUntil(t, a, p, n.reachable)
	require.Zero(t, unreachable(a))
}

// Routes are followed: over a gateway, to nowhere, and back.
func testRoutes(t *testing.T, open Opener) {
	n, a, b := open.OpenPair(t, 1500)
	// B has a second interface with the address, behind which is nothing.
	far := netip.MustParseAddr("192.0.2.7")
	n.B.Run("ip", "addr", "add", far.String()+"/32", "dev", Device)
	n.B.Run("ip", "route", "add", "default", "via", n.A4.String())
	require.NoError(t, b.Close()) // an interface takes one program of the xdp link
	farLink := open.Open(t, n.B, far)
	p := NewPath(a, farLink)
	SendUntil(t, a, p, func() bool { return unreachable(a) > 0 })
	n.A.Run("ip", "route", "add", far.String()+"/32", "via", n.B4.String())
	Reaches(t, a, farLink, p)
	n.A.Run("ip", "route", "replace", "unreachable", far.String()+"/32")
	before := unreachable(a)
	SendUntil(t, a, p, func() bool { return unreachable(a) > before })
	n.A.Run("ip", "route", "replace", far.String()+"/32", "via", n.B4.String())
	Reaches(t, a, farLink, p)
	// The other way round, over B's default route.
	Reaches(t, farLink, a, NewPath(farLink, a))
}

// states follows the states of a port.
type states chan link.PortState

func watch(l link.Link) states {
	ch := make(states, 100)
	l.Watch(func(s link.PortState) { ch <- s })
	return ch
}

// until waits for a state; there may be others before.
func (s states) until(t testing.TB, want link.PortState) {
	t.Helper()
	var got []link.PortState
	end := time.After(giveUp)
	for {
		select {
		case now := <-s:
			if now == want {
				return
			}
			got = append(got, now)
		case <-end:
			require.Fail(t, "the port never came to the state", "want %+v, got %+v", want, got)
		}
	}
}

// The states of a port over an interface with MTU 1500.
var up, down = link.PortState{Up: true, MTU: ib.MTU1024}, link.PortState{MTU: ib.MTU1024}

// watchedPair opens a pair that reaches each other, and watches a.
func (f Opener) watchedPair(t *testing.T) (n *Net, a, b link.Link, p *edge.Path, ch states) {
	n, a, b = f.OpenPair(t, 1500)
	ch = watch(a)
	ch.until(t, up)
	p = NewPath(a, b)
	Reaches(t, a, b, p)
	return n, a, b, p, ch
}

func testDownAndUp(t *testing.T, open Opener) {
	n, a, b, p, ch := open.watchedPair(t)
	// The carrier goes when the other side is switched off; then its own side.
	for _, ns := range []*Namespace{n.B, n.A} {
		ns.Run("ip", "link", "set", Device, "down")
		ch.until(t, down)
		before := unreachable(a)
		SendUntil(t, a, p, func() bool { return unreachable(a) > before })
		ns.Run("ip", "link", "set", Device, "up")
		ch.until(t, up)
		Reaches(t, a, b, p)
	}
	require.Zero(t, b.Stats().RxICRC)
}

// RunMTUChange tests that a link follows the MTU of its interface. Packets that no longer fit are
// dropped, single or in a run, never fragmented.
func RunMTUChange(t *testing.T, open Opener) {
	n, a, b := open.OpenPair(t, 4200)
	setMTU := func(mtu string) {
		n.A.Run("ip", "link", "set", Device, "mtu", mtu)
		n.B.Run("ip", "link", "set", Device, "mtu", mtu)
	}
	ch := watch(a)
	most := ib.MTU4096
	if oneBuffer(t, a) {
		most = ib.MTU2048
	}
	ch.until(t, link.PortState{Up: true, MTU: most})
	require.Equal(t, most, a.MTU())
	r := rand.New(rand.NewPCG(2, 2))
	p := NewPath(a, b)
	big := []edge.TxPacket{Packet(r, p, most.Bytes()), Packet(r, p, most.Bytes())}
	small := []edge.TxPacket{Packet(r, p, 1024), Packet(r, p, 1024)}
	SendAll(t, a, big)
	Await(t, b, big)

	setMTU("1500")
	ch.until(t, link.PortState{Up: true, MTU: ib.MTU1024})
	require.Equal(t, ib.MTU1024, a.MTU())
	// The next hop follows the same event on another goroutine, and the interface
	// itself may be the first to refuse a packet. It takes a run still, so that only
	// a run that was dropped tells that the hop has followed.
	since := countersOf(a)
	for end := time.Now().Add(giveUp); since().TxDropped < 2; {
		require.True(t, time.Now().Before(end))
		since = countersOf(a)
		SendAll(t, a, big)
		Drain(t, b)
	}
	for _, batch := range [][]edge.TxPacket{big, big[:1]} {
		since = countersOf(a)
		long := p.TooLong
		SendAll(t, a, batch)
		require.EqualValues(t, len(batch), since().TxDropped)
		require.Zero(t, since().TxPackets)
		require.Equal(t, long+uint64(len(batch)), p.TooLong)
	}
	SendAll(t, a, small)
	Await(t, b, small) // of the big ones some may still come

	setMTU("9000")
	ch.until(t, link.PortState{Up: true, MTU: most})
	arrived := func() bool { a.Send(big[:1]); return Drain(t, b) > 0 }
	for end := time.Now().Add(giveUp); !arrived(); {
		require.True(t, time.Now().Before(end))
	}
	require.Zero(t, b.Stats().RxICRC)
}

// The interface is removed: the port goes down, packets are unreachable, and
// the link either lives on without or fails with an error that says so.
func testRemoved(t *testing.T, open Opener) {
	n, a, _, p, ch := open.watchedPair(t)
	n.A.Run("ip", "link", "del", Device)
	ch.until(t, down)
	rx := make([]edge.RxPacket, 1)
	batch := []edge.TxPacket{Packet(rand.New(rand.NewPCG(3, 3)), p, 64)}
	since := countersOf(a)
	for end := time.Now().Add(giveUp); since().TxUnreachable == 0; {
		require.True(t, time.Now().Before(end))
		a.Send(batch)
		_, err := a.Recv(rx)
		if err == nil {
			err = a.Wait(time.Millisecond)
		}
		if err != nil {
			require.ErrorContains(t, err, Device)
			require.NotZero(t, since().TxDropped)
			return
		}
	}
}
