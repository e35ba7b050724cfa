package run

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSysfs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	addrs := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("2001:db8::1")}
	files := sysfsFiles(addrs, func(a netip.Addr) string {
		if a.Is4() {
			return "lo"
		}
		return ""
	})
	dir, err := writeSysfs(files)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"infiniband/goroce0/ports/1/gids/0":            "0000:0000:0000:0000:0000:ffff:7f00:0001\n",
		"infiniband/goroce0/ports/1/gid_attrs/ndevs/0": "lo\n",
		"infiniband/goroce1/ports/1/gids/0":            "2001:0db8:0000:0000:0000:0000:0000:0001\n",
		"infiniband_verbs/uverbs1/ibdev":               "goroce1\n",
	} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(b), name)
	}
	require.NoFileExists(t, filepath.Join(dir, "infiniband/goroce1/ports/1/gid_attrs/ndevs/0"), "an address of no interface")

	// The same devices have the same folder, others have another, and nothing else is left behind.
	again, err := writeSysfs(files)
	require.NoError(t, err)
	require.Equal(t, dir, again)
	other, err := writeSysfs(sysfsFiles(addrs[:1], ifaceOf))
	require.NoError(t, err)
	require.NotEqual(t, dir, other)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Len(t, left, 2)
}

// Somebody else may have made the folder.
func TestSysfsOfSomebodyElse(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	files := map[string]string{"a/b": "c"}
	dir, err := writeSysfs(files)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = writeSysfs(files)
	require.Error(t, err)
}

func TestIfaceOf(t *testing.T) {
	lo := ifaceOf(netip.MustParseAddr("127.0.0.1"))
	require.Equal(t, lo, ifaceOf(netip.MustParseAddr("127.0.0.77")), "all of 127/8 are the loopback interface's")
	require.Empty(t, ifaceOf(netip.MustParseAddr("203.0.113.7")))
}
