package run

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

func TestSysfsOf(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("2001:db8::1")}
	require.Equal(t, "0000:0000:0000:0000:0000:ffff:7f00:0001/lo,2001:0db8:0000:0000:0000:0000:0000:0001/",
		sysfsOf(addrs, func(a netip.Addr) string {
			if a.Is4() {
				return "lo"
			}
			return ""
		}))
}

// A folder that a process holds stays; one that a killed process has left goes, and one of an older
// version; what is no folder stays.
func TestRemoveLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, name := range []string{"goroce-sys-used", "goroce-sys-left", "goroce-sys-0-0123456789abcdef", "other"} {
		require.NoError(t, os.MkdirAll(filepath.Join(tmp, name, "infiniband", "goroce0"), 0o755))
	}
	require.NoError(t, os.Symlink("other", filepath.Join(tmp, "goroce-sys-link")))
	used, err := os.Open(filepath.Join(tmp, "goroce-sys-used"))
	require.NoError(t, err)
	defer used.Close()
	require.NoError(t, unix.Flock(int(used.Fd()), unix.LOCK_EX))
	removeLeft()
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"goroce-sys-link", "goroce-sys-used", "other"}, names)
	require.DirExists(t, filepath.Join(tmp, "other", "infiniband"))
}

func TestIfaceOf(t *testing.T) {
	lo := ifaceOf(netip.MustParseAddr("127.0.0.1"))
	require.Equal(t, lo, ifaceOf(netip.MustParseAddr("127.0.0.77")), "all of 127/8 are the loopback interface's")
	require.Empty(t, ifaceOf(netip.MustParseAddr("203.0.113.7")))
}
