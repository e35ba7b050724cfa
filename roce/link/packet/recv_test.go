package packet

import (
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/receive"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/stretchr/testify/require"
)

// Whichever socket's turn it is, frames of the other one are found in the same call.
func TestSocketsInTurn(t *testing.T) {
	const size = 4096
	r := &receiver{}
	for range 2 {
		r.socks = append(r.socks,
			&rxSocket{ring: &ring{mem: make([]byte, size), slot: size, block: size, perBlock: 1, slots: 1}})
	}
	some, err := r.receive()
	require.NoError(t, err)
	require.False(t, some)
	for range 2 {
		for _, s := range r.socks {
			storeStatus(s.ring.mem, unix.TP_STATUS_USER)
			some, err := r.receive()
			require.NoError(t, err)
			require.True(t, some)
			require.Same(t, s, r.from)
			storeStatus(s.ring.mem, unix.TP_STATUS_KERNEL)
		}
		r.next = 1 - r.next
	}
}

// After a look at what others hand on, the next one is a while off, unless there was something.
func TestReceiveAside(t *testing.T) {
	l := &Link{}
	r := &l.rx
	r.l, l.share.Look = l, true
	require.False(t, r.receiveAside())
	require.False(t, l.share.Look)

	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	r.inboxes = fds[:1]
	require.NoError(t, unix.Sendto(fds[1], []byte{1}, unix.MSG_DONTWAIT, nil))
	l.share.Look = true
	require.True(t, r.receiveAside())
	require.True(t, l.share.Look)
	require.False(t, r.receiveAside())
	require.False(t, l.share.Look)
	require.NoError(t, unix.Sendto(fds[1], []byte{1}, unix.MSG_DONTWAIT, nil))
	turns := 1
	for ; !r.receiveAside(); turns++ {
		require.Less(t, turns, asideTurns)
	}
	require.Equal(t, asideTurns-2, turns)
}

// Caught up is a link only when neither packets of the datagram at hand are left nor datagrams of
// the last read.
func TestCaughtUp(t *testing.T) {
	l := &Link{}
	r := &l.rx
	r.split.Init(ib.UDPPort)
	r.reader = sockio.NewReader(100, 2)
	r.reader.Recvmmsg = func(int, []sockio.Mmsghdr) (int, unix.Errno) { return 2, 0 }
	require.True(t, l.CaughtUp())
	_, errno := r.reader.Read(-1, 2)
	require.Zero(t, errno)
	require.False(t, l.CaughtUp())
	for range 2 {
		_, _, _, ok := r.reader.Next()
		require.True(t, ok)
	}
	require.True(t, l.CaughtUp())
	require.True(t, r.split.Begin(&receive.Datagram{Data: make([]byte, 40)}))
	require.False(t, l.CaughtUp())
}
