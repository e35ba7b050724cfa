package sockio

import (
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// Datagrams come in order, more of them a call while they are short and fewer
// again when they are long; an empty socket is an error of its own.
func TestReader(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	require.NoError(t, unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<22))
	const size = 16 << 10
	r := NewReader(size, 2)
	_, errno := r.Read(fds[1], MaxReadBatch)
	require.Equal(t, unix.EAGAIN, errno)
	_, _, _, ok := r.Next()
	require.False(t, ok)

	seq := byte(0)
	round := func(length, want int) {
		t.Helper()
		require.Equal(t, want, r.width)
		for i := range want {
			b := make([]byte, length)
			b[0] = seq + byte(i)
			require.NoError(t, unix.Sendto(fds[0], b, unix.MSG_DONTWAIT, nil))
		}
		n, errno := r.Read(fds[1], MaxReadBatch)
		require.Zero(t, errno)
		require.Equal(t, want, n)
		for i := range n {
			k, h, b, ok := r.Next()
			require.True(t, ok)
			require.Equal(t, i, k)
			require.Len(t, b, min(length, size))
			require.Equal(t, length > size, h.Flags&unix.MSG_TRUNC != 0)
			require.Equal(t, seq, b[0])
			seq++
		}
		_, _, _, ok := r.Next()
		require.False(t, ok)
	}
	round(100, 2)
	round(100, 4)
	round(size+1, 8)
	require.Equal(t, 2, r.width)
	require.Equal(t, defaultReadBatch, NewReader(1, 0).width)
	require.Equal(t, MaxReadBatch, NewReader(1, 99).width)
}
