package packet

import (
	"net/netip"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// A group whose filter cannot be set is not joined, and one that is joined stays so.
func TestListenFails(t *testing.T) {
	l := &Link{}
	g, h := netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("ff15::1")
	l.rx.socks = []*rxSocket{{fd: -1}}
	require.NoError(t, l.listen(h, 0, true), "no socket of its family")
	require.ErrorIs(t, l.listen(g, 0, true), unix.EBADF)
	require.Equal(t, groups{h: 1}, l.groups)
	require.NoError(t, l.listen(h, 0, true))
	require.NoError(t, l.listen(h, 0, false))
	require.Equal(t, groups{h: 1}, l.groups)
	require.NoError(t, l.listen(h, 0, false))
	require.Empty(t, l.groups)
}

// A socket that does not say how much it has dropped has dropped nothing.
func TestOverflowUnknown(t *testing.T) {
	l := &Link{}
	l.rx.open, l.rx.socks = true, []*rxSocket{{fd: -1}}
	l.rx.overflow.Store(3)
	var o link.Stats
	l.rx.readStats(&o)
	require.EqualValues(t, 3, o.RxOverflow)
}
