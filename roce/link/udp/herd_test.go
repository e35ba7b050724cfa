package udp

import (
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/internal/sockio"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// While requests cannot be read, for want of memory for one, the thread that waits for them naps
// between two looks. It was all of a CPU.
func TestHerdNaps(t *testing.T) {
	p := newPair(t, Options{}, Options{})
	require.NoError(t, p.b.ServeRequests())
	naps, over := make(chan time.Duration), make(chan time.Time)
	p.b.share.herd.nap = func(d time.Duration) <-chan time.Time { naps <- d; return over }
	read := p.b.rx.reader.Recvmmsg
	p.b.rx.reader.Recvmmsg = func(int, []sockio.Mmsghdr) (int, unix.Errno) { return 0, unix.ENOMEM }

	p.a.Send([]edge.TxPacket{p.message(mad.AttrREQ, (&mad.REQ{LocalCommID: 1, ServiceID: 1, MTU: ib.MTU1024}).Put)})
	rx := make([]edge.RxPacket, 1)
	for p.b.share.herd.vain < sockio.MaxVain {
		require.NoError(t, p.b.Wait(time.Minute))
		n, err := p.b.Recv(rx)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	require.Equal(t, sockio.NapTime, <-naps)
	require.False(t, p.b.share.herd.there.Load())

	p.b.rx.reader.Recvmmsg = read
	over <- time.Time{}
	n := 0
	for end := time.Now().Add(time.Minute); n == 0 && time.Now().Before(end); {
		require.NoError(t, p.b.Wait(time.Second))
		var err error
		n, err = p.b.Recv(rx)
		require.NoError(t, err)
	}
	require.Equal(t, 1, n)
}
