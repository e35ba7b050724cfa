package udp_test

import (
	"net/netip"
	"runtime"
	"syscall"
	"testing"

	"github.com/goroce/goroce/roce/link/udp"
	"github.com/stretchr/testify/require"
)

// Without /proc, as after a bare chroot, a program has its address for itself, and the next one
// learns why it cannot share it.
func TestWithoutProc(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("127.44.55.66")}
	root := t.TempDir()
	var unfit, first, second error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the thread ends with its root
		if unfit = syscall.Unshare(syscall.CLONE_FS); unfit != nil {
			return
		}
		if unfit = syscall.Chroot(root); unfit != nil {
			return
		}
		var l *udp.Link
		if l, first = udp.Open(addrs, udp.Options{}); first != nil {
			return
		}
		defer l.Close()
		var other *udp.Link
		if other, second = udp.Open(addrs, udp.Options{}); second == nil {
			other.Close()
		}
	}()
	<-done
	if unfit != nil {
		t.Skip("another root needs root:", unfit)
	}
	require.NoError(t, first)
	require.ErrorIs(t, second, syscall.EADDRINUSE)
	require.ErrorContains(t, second, "share it only where all see /proc")
}
