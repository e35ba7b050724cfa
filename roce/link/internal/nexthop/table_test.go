package nexthop

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/stretchr/testify/require"
)

func open(t *testing.T, o Options) *Table {
	tab, err := Open(o)
	if err != nil {
		t.Skipf("no rtnetlink: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, tab.Close()) })
	return tab
}

func TestLoopbackIsReady(t *testing.T) {
	changed := make(chan struct{}, 10)
	tab := open(t, Options{Changed: func() { changed <- struct{}{} }})
	h := tab.Get(netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1"))
	require.Same(t, h, tab.Get(netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1")))
	for h.State().Status == Pending {
		select {
		case <-changed:
		case <-time.After(2 * time.Minute):
			t.Fatal("no answer")
		}
	}
	s := h.State()
	l, ok := tab.Link(s.Index)
	if s.Status == Failed {
		t.Skipf("the loopback interface is not up here: %v", s.Err)
	}
	require.True(t, ok)
	require.Equal(t, Ready, s.Status)
	require.Equal(t, l.MTU, s.MTU)
	require.Equal(t, rtnl.MAC{}, s.Dst)
	require.Same(t, s, h.State(), "no change, no new state")
}

// The table does not grow without bound, and keeps what is in use.
func TestEviction(t *testing.T) {
	seeds.Slow(t)
	tab := open(t, Options{})
	src := netip.MustParseAddr("127.0.0.1")
	used := tab.Get(netip.MustParseAddr("127.1.0.1"), src)
	a := netip.MustParseAddr("127.2.0.1")
	first := tab.Get(a, src)
	for range 3 * maxHops {
		a = a.Next()
		tab.Get(a, src)
		used.Use(used.State())
		if len(tab.hops) > maxHops { // require takes longer than all the rest
			t.Fatalf("%d hops", len(tab.hops))
		}
	}
	require.Equal(t, Evicted, first.State().Status)
	first.Use(first.State()) // harmless
	require.NotSame(t, first, tab.Get(netip.MustParseAddr("127.2.0.1"), src))
}

// The state follows the entry of the neighbour table.
func TestApply(t *testing.T) {
	h := &Hop{t: &Table{kick: make(chan struct{}, 1)}}
	h.state.Store(statePending)
	mac := rtnl.MAC{2, 0, 0, 0, 0, 1}
	for _, c := range []struct {
		state   uint16
		mac     rtnl.MAC
		used    bool
		want    Status
		changed bool
		probe   bool
	}{
		{state: 0x01, want: Pending},                                  // INCOMPLETE
		{state: 0x02, mac: mac, want: Ready, changed: true},           // REACHABLE
		{state: 0x04, mac: mac, want: Ready},                          // STALE, unused
		{state: 0x04, mac: mac, used: true, want: Ready, probe: true}, // STALE, in use
		// Resolved again: the old MAC is kept.
		{state: 0x01, want: Ready},
		{state: 0x20, want: Failed, changed: true},                                 // FAILED
		{state: 0x20, want: Failed},                                                // still
		{state: 0x02, mac: rtnl.MAC{2, 0, 0, 0, 0, 7}, want: Ready, changed: true}, // another
	} {
		h.used.Store(c.used)
		h.probe = false
		changed := h.t.apply(h, &rtnl.Neighbour{State: c.state, MAC: c.mac})
		s := h.State()
		require.Equal(t, c.want, s.Status, "%+v", c)
		require.Equal(t, c.changed, changed, "%+v", c)
		require.Equal(t, c.probe, h.probe, "%+v", c)
		if c.mac != (rtnl.MAC{}) {
			require.Equal(t, c.mac, s.Dst)
		}
		require.Equal(t, c.want == Failed, s.Err != nil)
	}
}

// After notifications were lost the interfaces are read again, and a path that
// follows them is told what has changed: one that is up, one that is gone.
func TestLostNotifications(t *testing.T) {
	type change struct {
		l    rtnl.Link
		gone bool
	}
	changes := make(chan change, 100)
	moved := make(chan int, 10)
	lo := netip.IPv6Loopback()
	links, err := net.Interfaces()
	require.NoError(t, err)
	links = slices.DeleteFunc(links, func(i net.Interface) bool { return i.Flags&net.FlagLoopback == 0 })
	require.NotEmpty(t, links)
	index := links[0].Index
	tab := open(t, Options{
		LinkChanged: func(l rtnl.Link, gone bool) { changes <- change{l, gone} },
		Addrs:       []netip.Addr{lo}, Indexes: []int{index},
	})
	tab.Follow(func(i int) { moved <- i })
	now, ok := tab.Link(index)
	require.True(t, ok)
	tab.mu.Lock()
	outdated := now
	outdated.Flags = 0
	tab.links[index] = outdated
	removed := rtnl.Link{Index: 1 << 30, Name: "removed"}
	tab.links[removed.Index] = removed
	tab.mu.Unlock()
	tab.event(rtnl.Event{Lost: true})
	want := map[change]bool{{now, false}: true, {removed, true}: true}
	for end := time.After(2 * time.Minute); len(want) > 0; {
		select {
		case c := <-changes:
			delete(want, c)
		case <-end:
			require.Empty(t, want, "what was not told")
		}
	}
	if own, err := links[0].Addrs(); err != nil ||
		!slices.ContainsFunc(own, func(a net.Addr) bool { return a.String() == "::1/128" }) {
		t.Skip("the rest needs an IPv6 loopback address")
	}
	select {
	case i := <-moved: // the address may have been away
		require.Zero(t, i)
	case <-time.After(2 * time.Minute):
		t.Fatal("nobody looked where the address is")
	}
}
