package endpoint

import (
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/stretchr/testify/require"
)

// What a read says of the socket: nothing, that datagrams may be there although none can be read,
// or that it is no more.
func TestReadSocket(t *testing.T) {
	var b Base
	var err error
	b.Waker, err = sockio.NewPoller()
	require.NoError(t, err)
	defer b.Waker.Close()
	var split receive.Splitter
	reader := sockio.NewReader(64, 1)
	reader.Gone = unix.EINVAL
	var s Share
	s.Receive(&b, nil, reader, &split, nil)
	var left sockio.Unread
	for _, c := range []struct {
		errno unix.Errno
		later bool
	}{{unix.EAGAIN, false}, {unix.EINVAL, false}, {unix.ENETDOWN, true}, {unix.ENOMEM, true}} {
		left.Mark(1)
		reader.Recvmmsg = func(int, []sockio.Mmsghdr) (int, unix.Errno) { return 0, c.errno }
		n, later, err := s.ReadSocket(7, 1, &left)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, c.later, later, c.errno)
		require.True(t, left.None())
	}
	calls := 0
	reader.Recvmmsg = func(fd int, msgs []sockio.Mmsghdr) (int, unix.Errno) {
		require.Equal(t, 7, fd)
		require.Len(t, msgs, 1)
		if calls++; calls == 1 {
			return 0, unix.EINVAL
		}
		return 1, 0
	}
	n, later, err := s.ReadSocket(7, 1, &left)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.False(t, later)
	require.EqualValues(t, 1, split.Calls.Load())
	require.NoError(t, b.Life.Err())

	reader.Recvmmsg = func(int, []sockio.Mmsghdr) (int, unix.Errno) { return 0, unix.EBADF }
	_, _, err = s.ReadSocket(7, 1, &left)
	require.ErrorIs(t, err, unix.EBADF)
	require.ErrorIs(t, b.Life.Err(), unix.EBADF)
}
