package nexthop

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// still is a table without goroutines, with hops to .1, .2 and so on by the interface 7.
func still(n int) (*Table, []*Hop) {
	t := &Table{
		kick: make(chan struct{}, 1), hops: map[key]*Hop{}, byNeig: map[rtnl.NeighbourKey][]*Hop{},
		links: map[int]rtnl.Link{7: {Index: 7, Name: "seven"}},
	}
	src := netip.MustParseAddr("192.0.2.100")
	t.opts.Addrs, t.opts.Indexes = []netip.Addr{src}, []int{7}
	t.follow.begin(&t.opts, t.links)
	dst, hops := src, []*Hop(nil)
	for range n {
		dst = dst.Next()
		h, _ := t.hop(key{dst, src})
		hops = append(hops, h)
	}
	return t, hops
}

// queued returns what waits for the worker, and has it wait no more.
func (t *Table) takeQueue() (all []*Hop) {
	all, t.queue = t.queue, nil
	for _, h := range all {
		h.queued = false
	}
	return all
}

// Hops that have one neighbour follow its entry, each of them, until they have another or none.
func TestHopsOfOneNeighbour(t *testing.T) {
	tab, hops := still(3)
	gateway, other := rtnl.NeighbourKey{Index: 7, Addr: netip.MustParseAddr("192.0.2.1")},
		rtnl.NeighbourKey{Index: 7, Addr: netip.MustParseAddr("192.0.2.2")}
	for _, h := range hops {
		tab.attach(h, gateway)
		tab.attach(h, gateway)
	}
	n := rtnl.Neighbour{NeighbourKey: gateway, State: 0x02, MAC: rtnl.MAC{2, 0, 0, 0, 0, 1}} // REACHABLE
	require.True(t, tab.event(rtnl.Event{Neighbour: &n}))
	require.False(t, tab.event(rtnl.Event{Neighbour: &n}))
	require.False(t, tab.event(rtnl.Event{Neighbour: &n, EntryRemoved: true}))
	require.ElementsMatch(t, hops, tab.takeQueue())
	for _, h := range hops {
		require.Equal(t, Ready, h.State().Status)
	}
	for i, h := range hops[:2] {
		tab.attach(h, other)
		require.Equal(t, hops[:i+1], tab.byNeig[other])
		require.ElementsMatch(t, hops[i+1:], tab.byNeig[gateway])
	}
	tab.detach(hops[2])
	tab.detach(hops[2])
	require.Equal(t, map[rtnl.NeighbourKey][]*Hop{other: hops[:2]}, tab.byNeig)
}

// What changes elsewhere may change every way. Only what may move the local addresses has them
// looked for.
func TestEvents(t *testing.T) {
	local := netip.MustParseAddr("192.0.2.100")
	up := rtnl.Link{Index: 7, Name: "seven", Flags: 1}
	for name, c := range map[string]struct {
		event              rtnl.Event
		asked, look, again bool
	}{
		"an interface is up":     {event: rtnl.Event{Link: &up}, asked: true},
		"as it was":              {event: rtnl.Event{Link: &rtnl.Link{Index: 7, Name: "seven"}}},
		"gone":                   {event: rtnl.Event{Link: &up, LinkGone: true}, asked: true},
		"a local address":        {event: rtnl.Event{Address: &rtnl.Address{Addr: local}}, asked: true, look: true},
		"another address":        {event: rtnl.Event{Address: &rtnl.Address{Addr: local.Next()}}, asked: true},
		"a route":                {event: rtnl.Event{}, asked: true},
		"anything may have been": {event: rtnl.Event{Lost: true}, asked: true, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			tab, hops := still(3)
			require.False(t, tab.event(c.event))
			require.Equal(t, c.look, tab.follow.look)
			require.Equal(t, c.again, tab.reload)
			want := hops
			if !c.asked {
				want = nil
			}
			require.ElementsMatch(t, want, tab.takeQueue())
		})
	}
}

// The addresses are looked for once for all that has happened, by those that are followed.
func TestLookIsDueOnce(t *testing.T) {
	tab, _ := still(0)
	f := &tab.follow
	f.again()
	require.False(t, f.due())
	f.lost(8)
	f.again()
	require.False(t, f.look)
	f.lost(7)
	f.again()
	require.False(t, f.due(), "nobody follows them")
	f.moved = func(int) {}
	require.True(t, f.due())
	require.False(t, f.due())
	f.again()
	require.True(t, f.due(), "it is still away")
}

// A hop that has changed while the kernel was asked is asked for anew.
func TestAskAgain(t *testing.T) {
	tab := open(t, Options{})
	lo := netip.MustParseAddr("127.0.0.1")
	h := tab.Get(lo.Next(), lo)
	tab.asking.Lock() // the worker waits
	defer tab.asking.Unlock()
	tab.mu.Lock()
	h.epoch++
	old := h.epoch - 1
	tab.mu.Unlock()
	require.False(t, tab.ask(h, true, old))
	tab.mu.Lock()
	defer tab.mu.Unlock()
	require.NotEqual(t, old+1, h.epoch, "it was queued")
}

// What a route says of the MTU counts.
func TestRouteMTU(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	n.A.Run("ip", "route", "add", "10.98.0.0/24", "via", n.B4.String(), "mtu", "1400")
	var tab *Table
	n.A.Do(func() { tab = open(t, Options{Addrs: []netip.Addr{n.A4}, Indexes: []int{1}}) })
	require.Equal(t, 1400, tab.Get(netip.MustParseAddr("10.98.0.1"), n.A4).State().MTU)
	require.Equal(t, 1500, tab.Get(n.B4, n.A4).State().MTU)
}

// Each address is looked for by itself, and one that has moved has all hops asked for. Those that
// are away are looked for when interfaces have changed.
func TestLocate(t *testing.T) {
	n := linktest.NewNet(t, 1500)
	const lo = 1
	away := netip.MustParseAddr("192.0.2.1")
	var tab *Table
	n.A.Do(func() {
		tab = open(t, Options{
			Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), away, n.A4, n.A6, n.A4}, Indexes: []int{lo,
				lo, lo, lo, 11},
		})
	})
	h := tab.Get(n.B4, n.A4)
	tab.mu.Lock()
	before := h.epoch
	tab.mu.Unlock()
	tab.asking.Lock()
	require.Equal(t, []int{2, 3}, tab.locate())
	require.Empty(t, tab.locate())
	tab.asking.Unlock()
	tab.mu.Lock()
	require.Greater(t, h.epoch, before)
	require.Equal(t, []int{lo, lo, 11, 11, 11}, tab.follow.at)
	require.Equal(t, []bool{false, true, false, false, false}, tab.follow.gone)
	tab.mu.Unlock()

	moved := make(chan int, 10)
	tab.Follow(func(i int) { moved <- i })
	for due := true; due; runtime.Gosched() {
		tab.mu.Lock()
		due = tab.follow.look
		tab.mu.Unlock()
	}
	tab.asking.Lock()
	tab.mu.Lock()
	tab.follow.lost(11)
	tab.mu.Unlock()
	require.NoError(t, tab.readLinks())
	tab.asking.Unlock()
	for i := 2; i <= 4; i++ {
		select {
		case k := <-moved:
			require.Equal(t, i, k)
		case <-time.After(2 * time.Minute):
			t.Fatal("nobody has looked")
		}
	}
}

// To send by a neighbour that is stale, or that failed a while ago, has the kernel ask it; one that
// is known, or forgotten, does not.
func TestUseProbes(t *testing.T) {
	for _, c := range []struct {
		s    State
		asks bool
	}{{State{Status: Ready, stale: true}, true}, {State{Status: Failed}, true}, {State{Status: Ready}, false},
		{State{Status: Evicted}, false}} {
		tab, hops := still(1)
		hops[0].Use(&c.s)
		require.Empty(t, tab.takeQueue(), "it was looked up just now")
		hops[0].tried.Store(0)
		hops[0].Use(&c.s)
		require.Equal(t, c.asks, hops[0].probe)
		require.Equal(t, c.asks, len(tab.takeQueue()) == 1)
		require.True(t, hops[0].used.Load())
	}
}
