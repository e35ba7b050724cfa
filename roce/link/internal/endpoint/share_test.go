package endpoint

import (
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// A message of another device is found at whichever address it is, and there may be more.
func TestReadInboxes(t *testing.T) {
	var s Share
	require.False(t, s.ReadInboxes(nil))
	var here, others []int
	for range 2 {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		here, others = append(here, fds[0]), append(others, fds[1])
	}
	for _, fd := range others {
		require.False(t, s.ReadInboxes(here))
		require.NoError(t, unix.Sendto(fd, make([]byte, 1), unix.MSG_DONTWAIT, nil))
		s.Look = false
		require.True(t, s.ReadInboxes(here))
		require.True(t, s.Look)
	}
}
