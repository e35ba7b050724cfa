package sockio

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// The kernel says who has a port, of both families.
func TestPortUser(t *testing.T) {
	for _, a := range []string{"127.4.3.2", "::1"} {
		addr := netip.MustParseAddr(a)
		family, sa := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Addr: [4]byte{127, 4, 3, 2}})
		if addr.Is6() {
			family, sa = unix.AF_INET6, &unix.SockaddrInet6{Addr: addr.As16()}
		}
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		if err := unix.Bind(fd, sa); err != nil {
			t.Logf("no %v here: %v", a, err)
			continue
		}
		name, err := unix.Getsockname(fd)
		require.NoError(t, err)
		port := 0
		switch n := name.(type) {
		case *unix.SockaddrInet4:
			port = n.Port
		case *unix.SockaddrInet6:
			port = n.Port
		}
		uid, inode, ok := PortUser(addr, uint16(port))
		require.True(t, ok, a)
		require.Equal(t, os.Geteuid(), uid)
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(fd, &st))
		require.EqualValues(t, st.Ino, inode)
		_, _, ok = PortUser(addr, 1)
		require.False(t, ok)
	}
	for _, s := range []string{"", "\n\n", "a b c", " 1: 0203047F:0001 0 0 0 0 0 many 0 0"} {
		_, _, ok := portUser(strings.NewReader(s), netip.MustParseAddr("127.4.3.2"), 1)
		require.False(t, ok)
	}
}
