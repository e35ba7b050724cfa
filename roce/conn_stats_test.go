package roce

import (
	"bytes"
	"testing"
	"time"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Each kind of operation is counted once, where it belongs.
func TestConnStats(t *testing.T) {
	everywhere(t, func(t *testing.T, a, b *verbs.Device) {
		ctx := rocetest.Context(t)
		c, s := connPair(t, a, b, ConnConfig{KeepAlive: -1})
		require.Zero(t, c.Stats())
		memory := make([]byte, 4096)
		var remote RemoteMemory
		both(func() {
			if _, err := s.Share(ctx, memory, RemoteWrite|RemoteRead|RemoteAtomic); err != nil {
				t.Error(err)
			}
		}, func() {
			var err error
			remote, err = c.Shared(ctx)
			require.NoError(t, err)
		})
		require.NoError(t, c.Send(ctx, make([]byte, 100)))
		require.NoError(t, c.Send(ctx, make([]byte, 1000)))
		require.NoError(t, c.Write(ctx, make([]byte, 2000), remote))
		require.NoError(t, c.Read(ctx, make([]byte, 300), remote))
		_, err := c.FetchAdd(ctx, remote, 1)
		require.NoError(t, err)
		got := c.Stats()
		require.Positive(t, got.SmoothedRTT)
		got.SmoothedRTT, got.RTTVariance, got.RetransmittedPkts, got.Timeouts = 0, 0, 0, 0 // the network's
		require.Equal(t, ConnStats{
			SentMessages: 2, SentBytes: 1100, ReceivedMessages: 1, ReceivedBytes: RemoteMemoryBytes,
			WrittenBytes: 2000, ReadBytes: 308, Operations: 5,
		}, got)
		peer := s.Stats()
		require.Equal(t, 2, peer.Waiting)
		require.EqualValues(t, 1100, peer.ReceivedBytes)

		require.NoError(t, c.Close())
		require.Equal(t, ConnClosed, c.Stats().State)
		require.EqualValues(t, 1100, c.Stats().SentBytes, "what Close has found")
		require.NoError(t, s.Wait(ctx))
		require.Equal(t, ConnPeerClosed, s.Stats().State)
		require.NoError(t, s.Stats().Err)
	})
}

// What is sent again is counted for the connection that it was sent again for.
func TestConnStatsLoss(t *testing.T) {
	ctx := rocetest.Context(t)
	f := sim.New(sim.Config{Seed: 3})
	ds := rocetest.SimDevices(t, f, 2)
	c, s := connPair(t, ds[0], ds[1], ConnConfig{})
	other, _ := connPair(t, ds[0], ds[1], ConnConfig{})
	both(func() {
		for range 50 {
			if _, err := s.Recv(ctx, make([]byte, 5000)); err != nil {
				t.Error(err)
			}
		}
	}, func() {
		require.NoError(t, c.Send(ctx, nil))
		f.SetFaults(ds[0].Addrs()[0], ds[1].Addrs()[0], sim.Faults{Loss: 0.2})
		for range 20 {
			require.NoError(t, c.Send(ctx, bytes.Repeat([]byte{1}, 5000)))
		}
		f.SetFaults(ds[0].Addrs()[0], ds[1].Addrs()[0], sim.Faults{})
		for range 29 {
			require.NoError(t, c.Send(ctx, nil))
		}
	})
	require.Positive(t, c.Stats().RetransmittedPkts)
	require.EqualValues(t, ds[0].Counters().RetransmittedPkts, c.Stats().RetransmittedPkts)
	require.Zero(t, other.Stats().RetransmittedPkts)

	// A peer that does not answer is a failure, with a reason.
	f.Partition(ds[0].Addrs()[0], ds[1].Addrs()[0], true)
	err := c.Send(ctx, nil)
	require.ErrorIs(t, err, ErrUnreachable)
	st := c.Stats()
	require.Equal(t, ConnFailed, st.State)
	require.ErrorIs(t, st.Err, ErrUnreachable)
	require.Positive(t, st.Timeouts)
	require.Less(t, st.SmoothedRTT, time.Second)
	require.Equal(t, "failed", st.State.String())
	require.Equal(t, "ConnState(9)", ConnState(9).String())
}
