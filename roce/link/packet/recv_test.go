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
func TestLookAside(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	l := &Link{}
	r := &l.rx
	r.l, l.share.Look = l, true
	r.asideFDs = []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}
	takes := func() bool {
		some, err := r.Take()
		require.NoError(t, err)
		return some
	}
	require.False(t, takes())
	require.False(t, l.share.Look)

	require.NoError(t, unix.Sendto(fds[1], []byte{1}, unix.MSG_DONTWAIT, nil))
	l.share.Look = true
	require.True(t, takes())
	require.True(t, l.share.Look)
	require.False(t, takes())
	require.False(t, l.share.Look)
	require.NoError(t, unix.Sendto(fds[1], []byte{1}, unix.MSG_DONTWAIT, nil))
	turns := 1
	for ; !takes(); turns++ {
		require.Less(t, turns, asideTurns)
	}
	require.Equal(t, asideTurns-3, turns)
}

// What others hand on waits for the frames that had come by then, and no longer.
func TestHandedOnComesAfterEarlierFrames(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	const size, slots = 4096, 4
	l := &Link{}
	r := &l.rx
	r.l = l
	r.reader = sockio.NewReader(100, 2)
	r.asideFDs = []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}
	r.socks = []*rxSocket{{ring: &ring{mem: make([]byte, slots*size), slot: size, block: slots * size,
		perBlock: slots, slots: slots}}}
	ring := r.socks[0].ring
	come := func() { storeStatus(ring.at(0), unix.TP_STATUS_USER) }
	takes := func(aside bool) {
		t.Helper()
		some, err := r.Take()
		require.NoError(t, err)
		require.True(t, some)
		require.Equal(t, aside, l.share.Look)
	}
	for frames := range slots + 1 {
		require.NoError(t, unix.Sendto(fds[1], []byte{1}, unix.MSG_DONTWAIT, nil))
		l.share.Look = true
		for range frames {
			come()
			takes(false)
			r.take(1)
		}
		if frames == slots {
			come() // frames come all the time
		}
		takes(true)
	}
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
