package roce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
)

// calmPair is a connection on which nobody has waited for n operations, memory to write, and start,
// which begins a WRITE and lets it arrive.
func calmPair(t *testing.T, network *sim.Fabric, n int) (c, s *Conn, start func() *Pending) {
	ds := rocetest.SimDevices(t, network, 2)
	c, s = connPair(t, ds[0], ds[1], ConnConfig{})
	remote, err := s.Register(make([]byte, 64), verbs.AccessAll)
	require.NoError(t, err)
	mr, err := c.Register(make([]byte, 64), 0)
	require.NoError(t, err)
	start = func() *Pending {
		p, err := c.StartWrite(t.Context(), remote.Remote(), mr.SGE(0, 64))
		require.NoError(t, err)
		time.Sleep(100 * time.Microsecond)
		return p
	}
	for range n {
		start()
	}
	return c, s, start
}

func calmly(t *testing.T, n int, f func(t *testing.T, c, s *Conn, start func() *Pending)) {
	sim.Test(t, sim.Config{Seed: 1}, func(t *testing.T, network *sim.Fabric) {
		c, s, start := calmPair(t, network, n)
		f(t, c, s, start)
	})
}

// acks is how many packets the device has received.
func acks(c *Conn) uint64 { return c.d.LinkStats().RxPackets }

// Where nobody waits one acknowledgement serves many operations. It comes although nothing follows.
func TestNobodyWaits(t *testing.T) {
	calmly(t, 2*minCalm, func(t *testing.T, c, _ *Conn, start func() *Pending) {
		before := acks(c)
		for range 256 {
			start()
		}
		require.LessOrEqual(t, acks(c)-before, uint64(256/4),
			"two for a window, which is small where little is in flight")
		time.Sleep(2 * time.Millisecond)
		require.Zero(t, c.Stats().InProgress)
		require.Zero(t, c.d.Counters().LossProbes, "no sign of a loss")
	})
}

// A wait asks the peer, and takes a round trip. After it operations hurry for some time, after the
// next one for longer.
func TestSomebodyWaits(t *testing.T) {
	calmly(t, 2*minCalm, func(t *testing.T, c, _ *Conn, start func() *Pending) {
		p := start()
		require.Positive(t, c.Stats().InProgress)
		begin := time.Now()
		require.NoError(t, p.Wait(t.Context()))
		require.Less(t, time.Since(begin), 100*time.Microsecond)
		before := acks(c)
		for range 2 * minCalm {
			start()
		}
		require.EqualValues(t, 2*minCalm, acks(c)-before)
		p = start()
		require.False(t, p.Done())
		time.Sleep(100 * time.Microsecond)
		require.True(t, p.Done(), "who looks waits as well")
		require.Equal(t, 4*minCalm, c.calm.need)
	})
}

// Requests that the program uses again do not keep what they were last time.
func TestRequestsUsedAgain(t *testing.T) {
	calmly(t, 2*minCalm, func(t *testing.T, c, s *Conn, _ func() *Pending) {
		remote, err := s.Register(make([]byte, 64), verbs.AccessAll)
		require.NoError(t, err)
		wrs := []verbs.SendWR{{Opcode: verbs.WRWrite, RemoteAddr: remote.Remote().Addr, RKey: remote.Remote().RKey}}
		for _, patient := range []bool{true, false} {
			p, err := c.Start(t.Context(), wrs...)
			require.NoError(t, err)
			require.Equal(t, patient, p.patient)
			time.Sleep(100 * time.Microsecond)
			require.Equal(t, patient, c.Stats().InProgress == 1)
			require.NoError(t, p.Wait(t.Context()))
		}
	})
}

// A peer that closes has acknowledged all that it has, whether it was asked or not.
func TestPeerClosesUnasked(t *testing.T) {
	calmly(t, 2*minCalm, func(t *testing.T, c, s *Conn, start func() *Pending) {
		p := start()
		require.Positive(t, c.Stats().InProgress)
		require.NoError(t, s.Close())
		require.NoError(t, p.Wait(t.Context()))
		require.NoError(t, c.Close())
	})
}

// Close does not wait for a timer.
func TestCloseAsks(t *testing.T) {
	calmly(t, 2*minCalm, func(t *testing.T, c, _ *Conn, start func() *Pending) {
		start()
		require.Positive(t, c.Stats().InProgress)
		begin := time.Now()
		require.NoError(t, c.Close())
		require.Less(t, time.Since(begin), 500*time.Microsecond)
	})
}

// A peer of an earlier version, which would close without a word, is asked each time.
func TestEarlierPeerIsAsked(t *testing.T) {
	calmly(t, 0, func(t *testing.T, c, _ *Conn, start func() *Pending) {
		c.calm.able = false
		before := acks(c)
		for range 4 * minCalm {
			start()
		}
		require.EqualValues(t, 4*minCalm, acks(c)-before)
	})
}
