package verbs

import (
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/stretchr/testify/require"
)

// Whichever descriptor of a device cannot be had: Open returns an *OpenError that says so, or does
// without; nothing is left open; and the next Open works. A device has some 200 of them, so not
// each is tried.
func TestOpenWithFewFiles(t *testing.T) {
	a := loopback4()
	failed := 0
	for _, more := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 64, 66, 132, 196, 200, 204} {
		d, err := Open(Config{Addrs: []netip.Addr{a}})
		require.NoError(t, err, "with all descriptors, after %d", more)
		require.NoError(t, d.Close())
		before := files(t)
		t.Run(itoa(more)+" more", func(t *testing.T) {
			linktest.FewFiles(t, more)
			d, err := Open(Config{Addrs: []netip.Addr{a}})
			if err == nil {
				require.NoError(t, d.Close())
				return
			}
			failed++
			var oe *OpenError
			require.ErrorAs(t, err, &oe)
			require.ErrorIs(t, err, syscall.EMFILE)
		})
		require.Equal(t, before, files(t), "descriptors, with %d more", more)
	}
	require.GreaterOrEqual(t, failed, 4)
}

// files returns how many descriptors the process has.
func files(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}
