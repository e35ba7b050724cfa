package rdmacm_test

import (
	"runtime"
	"testing"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/internal/access"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// eventFD is how a program without goroutines waits for the events of a channel.
type eventFD struct {
	t  *testing.T
	fd int
	ch *rdmacm.EventChannel
}

func newEventFD(t *testing.T, ch *rdmacm.EventChannel) *eventFD {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	core.Open(ch).Notify(func() {
		if _, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Error(err)
		}
	})
	return &eventFD{t, fd, ch}
}

// next takes the next event as rdma_get_cm_event does. The test hangs if nobody says that there is
// one.
func (w *eventFD) next(want rdmacm.EventType) *rdmacm.Event {
	for {
		if e := w.ch.Poll(); e != nil {
			require.Equal(w.t, want, e.Type)
			return e
		}
		var n [8]byte
		_, err := unix.Read(w.fd, n[:])
		require.NoError(w.t, err)
	}
}

// A connection is made and ended by programs that wait on file descriptors, on devices that
// receive by themselves, and on some that have been polled.
func TestNotifyWakesSleeper(t *testing.T) {
	for name, cfg := range map[string]verbs.Config{"event": {}, "polling": {Polling: true}} {
		t.Run(name, func(t *testing.T) {
			ctx := rocetest.Context(t)
			s, c := rocetest.NewPeer(t, cfg), rocetest.NewPeer(t, cfg)
			lid := s.Listen(t, rdmacm.PortSpaceTCP, 7471)
			cid := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
			sw, cw := newEventFD(t, s.Ch), newEventFD(t, c.Ch)
			require.False(t, core.Open(s.Ch).Pending())
			for _, d := range []*rocetest.Peer{s, c} {
				_, err := d.CQ.Poll(make([]verbs.WC, 1)) // as one who polls
				require.NoError(t, err)
			}
			require.NoError(t, cid.Connect(nil))
			e := sw.next(rdmacm.EventConnectRequest)
			s.AddQP(t, e.ID)
			require.NoError(t, e.ID.Accept(nil))
			cw.next(rdmacm.EventEstablished)
			sw.next(rdmacm.EventEstablished)
			require.NoError(t, cid.Disconnect(nil))
			sw.next(rdmacm.EventDisconnected)
			cw.next(rdmacm.EventDisconnected)
			require.NoError(t, e.ID.Close())
		})
	}
}

// Who looks for events and for requests apart, as librdmacm's calls on several devices do, goes to
// wait as who looks for both.
func TestPollRequestLeaves(t *testing.T) {
	s := rocetest.NewPeer(t, verbs.Config{Polling: true})
	newEventFD(t, s.Ch)
	shard := access.Shard(s.CQ.Device())
	for shard.Background() { // until the program receives, as one who polls
		_, err := s.CQ.Poll(make([]verbs.WC, 1))
		require.NoError(t, err)
		runtime.Gosched()
	}
	require.Nil(t, core.Open(s.Ch).PollEvent())
	require.Nil(t, core.Open(s.Ch).PollRequest())
	require.True(t, shard.Background(), "nobody receives")
}

// An event that comes between the looks for events and for requests is found before a request that
// came after it: a program that accepts one connection waits for EventEstablished.
func TestEventBeforeLaterRequest(t *testing.T) {
	ctx := rocetest.Context(t)
	s, c := rocetest.NewPeer(t, verbs.Config{}), rocetest.NewPeer(t, verbs.Config{})
	lid := s.Listen(t, rdmacm.PortSpaceTCP, 7471)
	first := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	second := c.Resolve(t, ctx, rdmacm.PortSpaceTCP, lid.LocalAddr())
	require.NoError(t, first.Connect(nil))
	e, err := s.Ch.Get(ctx)
	require.NoError(t, err)
	s.AddQP(t, e.ID)
	require.Nil(t, core.Open(s.Ch).PollEvent())
	require.NoError(t, e.ID.Accept(nil))
	_, err = c.Ch.Get(ctx)
	require.NoError(t, err)
	require.NoError(t, second.Connect(nil))
	for !rdmacm.Requested(s.Ch) {
		runtime.Gosched()
	}
	require.Equal(t, rdmacm.EventEstablished, core.Open(s.Ch).PollRequest().Type)
	require.Equal(t, rdmacm.EventConnectRequest, core.Open(s.Ch).PollRequest().Type)
}
