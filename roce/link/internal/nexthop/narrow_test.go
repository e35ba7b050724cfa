package nexthop

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The word of a router lowers the MTU of its way alone, and raises none; it is forgotten after a
// while, and is none about a destination that nothing was sent to.
func TestNarrow(t *testing.T) {
	all, err := net.Interfaces()
	require.NoError(t, err)
	lo := slices.IndexFunc(all, func(i net.Interface) bool { return i.Flags&net.FlagLoopback != 0 })
	if lo < 0 || all[lo].Flags&net.FlagUp == 0 {
		t.Skip("the loopback interface is not up here")
	}
	src, dst, other := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2"),
		netip.MustParseAddr("127.0.0.3")
	tab := open(t, Options{Addrs: []netip.Addr{src}, Indexes: []int{all[lo].Index}})
	h := tab.Get(dst, src)
	require.Equal(t, Ready, h.State().Status)
	require.Equal(t, all[lo].MTU, h.State().MTU)
	require.Equal(t, all[lo].MTU, tab.Get(other, src).State().MTU)

	seen := h.State()
	for _, c := range []struct{ says, now int }{{1 << 20, all[lo].MTU}, {1500, 1500}, {9000, 1500}, {1400, 1400}} {
		tab.Narrow(dst, src, c.says)
		require.Equal(t, c.now, h.State().MTU)
	}
	require.NotSame(t, seen, h.State(), "a sender sees it")
	require.Equal(t, Ready, h.State().Status)
	require.Equal(t, all[lo].MTU, tab.Get(other, src).State().MTU)
	tab.Narrow(other.Next(), src, 1500)
	require.Equal(t, all[lo].MTU, tab.Get(other.Next(), src).State().MTU)

	await := func(mtu int) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); h.State().MTU != mtu; runtime.Gosched() {
			require.True(t, time.Now().Before(end), "still %d", h.State().MTU)
		}
	}
	tab.resolve(h, false) // the kernel is asked again, and knows nothing of it
	tab.mu.Lock()
	epoch := h.epoch
	tab.mu.Unlock()
	tab.asking.Lock()
	tab.ask(h, false, epoch)
	tab.asking.Unlock()
	require.Equal(t, 1400, h.State().MTU)
	tab.widen(h)
	await(all[lo].MTU)
	tab.Narrow(dst, src, 1500)
	require.NoError(t, tab.Close())
	require.Nil(t, h.narrow, "its timer is stopped")
	tab.Narrow(dst, src, 1400)
	require.Nil(t, h.narrow)
}
