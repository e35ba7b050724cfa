package netns

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is done in a namespace is done there, by commands, too, and nothing of it is
// seen outside; a function that ends its goroutine ends no more than that.
func TestNamespace(t *testing.T) {
	outside, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	n, err := New()
	if err != nil {
		t.Skipf("needs root: %v", err)
	}
	var inside string
	var ifs []net.Interface
	var names []byte
	require.NoError(t, n.Do(func() {
		inside, _ = os.Readlink("/proc/thread-self/ns/net")
		ifs, err = net.Interfaces()
		names, _ = exec.Command("readlink", "/proc/self/ns/net").Output()
	}))
	require.NoError(t, err)
	require.NotEqual(t, outside, inside)
	require.Equal(t, inside+"\n", string(names))
	require.Len(t, ifs, 1, "loopback")
	require.NoError(t, n.Do(runtime.Goexit))
	there, err := os.Readlink(n.Path())
	require.NoError(t, err)
	require.Equal(t, inside, there)
	require.NoError(t, n.Close())
	now, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	require.Equal(t, outside, now)
}

// begun is where the process was before anything.
var begun, _ = os.Readlink("/proc/self/ns/net")

// The process stays where it was: its main thread, which outlives what it does, is never
// the one that enters.
func TestMainThreadStays(t *testing.T) {
	n, err := New()
	if err != nil {
		t.Skipf("needs root: %v", err)
	}
	defer n.Close()
	for range 200 {
		require.NoError(t, n.Do(runtime.Gosched))
	}
	now, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Equal(t, begun, now)
}
