package endpoint

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/rtnl"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

func iface(index, mtu int, up bool) rtnl.Link {
	l := rtnl.Link{Index: index, MTU: mtu}
	if up {
		l.Flags = unix.IFF_UP | unix.IFF_LOWER_UP
	}
	return l
}

func ifaces(all ...rtnl.Link) map[int]rtnl.Link {
	m := map[int]rtnl.Link{}
	for _, l := range all {
		m[l.Index] = l
	}
	return m
}

func unlimited(int) int { return 1 << 16 }

// A transcript: what the port is after each change, and that it is told once.
func TestPort(t *testing.T) {
	var tr Port
	told := 0
	var state link.PortState
	tr.Init(ifaces(iface(1, 9000, true), iface(2, 1500, true)), unlimited, 0)
	tr.Watch(func(s link.PortState) { state, told = s, told+1 })
	at := 0
	want := func(what string, up bool, mtu ib.MTU, news bool) {
		t.Helper()
		if news {
			at++
		}
		require.Equal(t, link.PortState{Up: up, MTU: mtu}, state, what)
		require.Equal(t, mtu, tr.MTU(), what)
		require.Equal(t, at, told, what)
	}
	want("the smallest MTU", true, ib.MTU1024, true)
	tr.Changed(iface(2, 1500, true), false)
	want("nothing changed", true, ib.MTU1024, false)
	tr.Changed(iface(3, 600, false), false)
	want("another's interface", true, ib.MTU1024, false)
	tr.Changed(iface(2, 4200, true), false)
	want("longer packets", true, ib.MTU4096, true)
	tr.Changed(iface(2, 4200, true), true)
	want("one is gone, one is up", true, ib.MTU4096, false)
	tr.Changed(iface(1, 9000, false), false)
	want("none is up", false, ib.MTU4096, true)
	tr.Moved(2, false, iface(4, 2300, true))
	want("the address of the one that is gone is elsewhere", true, ib.MTU2048, true)
	tr.Moved(4, true, iface(5, 1500, true))
	want("one of two addresses is elsewhere", true, ib.MTU1024, true)
	tr.Reset(ifaces(iface(9, 9000, true)))
	want("all are elsewhere", true, ib.MTU4096, true)
	tr.Watch(nil)
	tr.Reset(ifaces(iface(9, 9000, false)))
	require.Equal(t, at, told, "nobody watches")
}

// The link's own limit counts, and so does the option.
func TestPortLimits(t *testing.T) {
	var tr Port
	tr.Init(ifaces(iface(1, 9000, true)), func(index int) int { return 3000 }, 0)
	require.Equal(t, ib.MTU2048, tr.MTU())
	tr.Init(ifaces(iface(1, 9000, true)), unlimited, ib.MTU512)
	require.Equal(t, ib.MTU512, tr.MTU())
	tr.Changed(iface(1, 400, true), false)
	require.Equal(t, ib.MTU256, tr.MTU(), "the option does not raise it")
}
