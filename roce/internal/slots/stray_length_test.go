//go:build linux

package slots

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// A message of packets that are handed on is as long as fits, and never longer.
func TestHandOnFillsMessages(t *testing.T) {
	a := address()
	l, m := lease(t, a), lease(t, a)
	p := edge.RxPacket{Data: make([]byte, 4096), Src: a.Addr, Dst: a.Addr}
	for range 40 {
		lost, ok := l.HandOn(0, m.slot, &p)
		require.Zero(t, lost)
		require.True(t, ok)
	}
	require.Zero(t, l.Flush())
	each := strayHeader + len(p.Data)
	fit := MaxStrays / each
	var got []int
	for _, b := range received(t, m.Inbox(0)) {
		got = append(got, len(b)/each)
	}
	require.Equal(t, []int{fit, fit, 40 - 2*fit}, got)
}

// A service of one address is announced there, wherever that is in the list, and no more once it is
// withdrawn.
func TestAnnounceAtOneAddress(t *testing.T) {
	a, b := address(), address()
	b.Addr = netip.MustParseAddr("127.5.5.6")
	l := lease(t, a, b)
	other := lease(t, a, b)
	addrs := []netip.Addr{a.Addr, b.Addr}
	for i, local := range addrs {
		require.NoError(t, l.AnnounceAt(77, addrs, local))
		for k := range addrs {
			slot, ok := other.Owner(k, 77)
			require.Equal(t, k == i, ok, "%v at %v", local, addrs[k])
			if ok {
				require.Equal(t, l.slot, slot)
			}
		}
		l.WithdrawAt(77, addrs, local)
		_, ok := other.Owner(i, 77)
		require.False(t, ok)
	}
}
