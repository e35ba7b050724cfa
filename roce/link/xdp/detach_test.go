package xdp_test

import (
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/link/linktest"
	"github.com/goroce/goroce/roce/link/xdp"
	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Somebody takes the program from the interface: the kernel lets nobody replace
// it, but who detaches it is noticed with the next change of the interface.
func TestDetached(t *testing.T) {
	n, l, _ := openPair(t, 1500)
	a := l.(*xdp.Link)
	var last link.PortState
	down := make(chan struct{})
	a.Watch(func(s link.PortState) {
		if last.Up && !s.Up {
			close(down)
		}
		last = s
	})
	var foreign error
	n.A.Do(func() { foreign = a.AttachAnother() })
	require.ErrorIs(t, foreign, unix.EBUSY)
	require.NoError(t, a.DetachProgram())
	n.A.Run("ip", "link", "set", linktest.Device, "txqueuelen", "77")
	<-down
	err := a.Wait(-1)
	for err == nil { // a wake for something else
		err = a.Wait(-1)
	}
	var detached *xdp.DetachedError
	require.ErrorAs(t, err, &detached)
	require.Equal(t, linktest.Device, detached.Interface)
	_, err = a.Recv(make([]transport.RxPacket, 1))
	require.ErrorAs(t, err, &detached)
}
