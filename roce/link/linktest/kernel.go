package linktest

import (
	"fmt"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link"
	"github.com/stretchr/testify/require"
)

// Before reports whether this machine's kernel is older than a version of Linux.
func Before(t testing.TB, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	var a, b int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b)
	require.NoError(t, err)
	return a < major || a == major && b < minor
}

// NoRuns reports whether a link finds out only by its first run that the kernel cuts up none for
// it: the packet link, whose virtio header cannot say how before Linux 6.2.
func NoRuns(t testing.TB, l link.Link) bool {
	return l.Capabilities().Name == "packet" && Before(t, 6, 2)
}

// oneBuffer reports whether a frame for a link must fit one buffer: the xdp link's, before Linux
// 6.6.
func oneBuffer(t testing.TB, l link.Link) bool {
	return l.Capabilities().Name == "xdp" && Before(t, 6, 6)
}
