package udp

import (
	"net/netip"
	"os"
	"testing"

	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// What a link remembers of paths is bounded.
func TestPathsAreBounded(t *testing.T) {
	s := &sender{l: &Link{}, paths: map[pathKey]*path{}}
	p := edge.Path{Src: netip.MustParseAddr("127.0.0.1"), Dst: netip.MustParseAddr("127.0.0.2")}
	sock := newSocket(0, p.Src, nil)
	for i := range 2*maxPaths + 1 {
		key := pathKey{sock: sock, dst: p.Dst, scope: uint32(i)}
		made := s.newPath(key, &p)
		require.Same(t, made, s.paths[key])
		require.LessOrEqual(t, len(s.paths), maxPaths)
	}
	require.Len(t, s.paths, 1)
}

// Of several groups the one that is left is left.
func TestLeaveAnyGroup(t *testing.T) {
	a, b := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	g, h := netip.MustParseAddr("239.1.2.3"), netip.MustParseAddr("239.1.2.4")
	l := &Link{}
	for _, s := range []*socket{{addr: g, local: a}, {addr: g, local: b}, {addr: h, local: b}} {
		s.joins = 3
		l.groups = append(l.groups, s)
	}
	require.NoError(t, l.Leave(h, b))
	require.NoError(t, l.Leave(g, b))
	require.NoError(t, l.Leave(g, b))
	require.Error(t, l.Leave(h, a))
	require.Equal(t, []int{3, 1, 2}, []int{l.groups[0].joins, l.groups[1].joins, l.groups[2].joins})
}

// A group that cannot be joined leaves no socket.
func TestOpenGroupFails(t *testing.T) {
	open := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(d)
	}
	a := netip.MustParseAddr("127.0.0.1")
	before := open()
	for range 20 {
		_, err := openGroup(a, newSocket(0, a, nil), 0, &Options{}) // no group
		require.Error(t, err)
	}
	require.Less(t, open(), before+20)
}
