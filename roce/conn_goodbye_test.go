package roce

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

var lossy = sim.Faults{Loss: 0.05, Reorder: 0.02, ReorderDelay: 50 * time.Microsecond}

// goodbyes runs f with a connection over a network that loses packets, for several seeds.
func goodbyes(t *testing.T, f func(t *testing.T, network *sim.Fabric, client, server *Conn)) {
	for seed := range uint64(seeds.Fewer(16)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			sim.Test(t, sim.Config{Seed: seed, Faults: lossy}, func(t *testing.T, network *sim.Fabric) {
				ds := rocetest.SimDevices(t, network, 2)
				client, server := connPair(t, ds[0], ds[1], ConnConfig{RecvDepth: 4, RecvBytes: 8192, SendDepth: 64})
				f(t, network, client, server)
			})
		})
	}
}

// What was begun with Start, and not waited for, is done when Close returns, though the peer takes
// its time; the peer gets all of it, and then the end.
func TestCloseWaitsForStart(t *testing.T) {
	goodbyes(t, func(t *testing.T, _ *sim.Fabric, c, s *Conn) {
		const n = 20
		mr, err := c.Register(make([]byte, 5000), verbs.LocalWrite)
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			for i := range n {
				time.Sleep(100 * time.Millisecond)
				m, err := s.RecvMsg(t.Context())
				if err != nil || m.Len() != 5000 {
					got <- fmt.Errorf("message %d: %d bytes, %w", i, m.Len(), err)
					return
				}
				_ = m.Release()
			}
			_, err := s.RecvMsg(t.Context())
			got <- err
		}()
		for range n {
			_, err := c.StartSend(t.Context(), mr.SGE(0, 5000))
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
		require.Zero(t, c.Stats().InProgress)
		require.Equal(t, io.EOF, <-got)
	})
}

// A Close that cannot wait until all is done says how much is not, when its time is over: 30 s, the
// write deadline, or a second call with less patience. It does not wait for what somebody was told
// of.
func TestCloseSaysWhatMayBeLost(t *testing.T) {
	for name, c := range map[string]struct {
		before func(c *Conn)
		after  time.Duration
		is     error
	}{
		"30 s": {func(*Conn) {}, 30 * time.Second, os.ErrDeadlineExceeded},
		"write deadline": {func(c *Conn) { _ = c.SetWriteDeadline(time.Now().Add(2 * time.Second)) },
			2 * time.Second, os.ErrDeadlineExceeded},
		"hurry": {func(c *Conn) {
			go func() { time.Sleep(3 * time.Second); _ = c.close(0) }()
		}, 3 * time.Second, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			goodbyes(t, func(t *testing.T, network *sim.Fabric, client, server *Conn) {
				mr, err := client.Register(make([]byte, 100), verbs.LocalWrite)
				require.NoError(t, err)
				network.Partition(client.LocalAddr().Addr(), server.LocalAddr().Addr(), true)
				for range 3 {
					_, err := client.StartSend(t.Context(), mr.SGE(0, 100))
					require.NoError(t, err)
				}
				told, err := client.StartSend(t.Context(), mr.SGE(0, 100))
				require.NoError(t, err)
				brief, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, told.Wait(brief), context.DeadlineExceeded)
				c.before(client)
				start := time.Now()
				err = client.Close()
				require.InDelta(t, c.after.Seconds(), time.Since(start).Seconds(), 0.1)
				var lost *LostError
				require.ErrorAs(t, err, &lost)
				require.Equal(t, 3, lost.Operations)
				require.ErrorIs(t, err, c.is)
				require.ErrorIs(t, err, ErrMaybeDone)
				start = time.Now()
				require.NoError(t, client.Close(), "it has been said")
				require.Zero(t, time.Since(start))
				network.Partition(client.LocalAddr().Addr(), server.LocalAddr().Addr(), false)
				_, err = server.Recv(t.Context(), make([]byte, 100))
				require.ErrorIs(t, err, ErrPeerGone, "no end in order")
			})
		})
	}
}

// Operations of a connection that has failed are counted by Close, unless somebody has asked.
func TestCloseAfterFailure(t *testing.T) {
	goodbyes(t, func(t *testing.T, _ *sim.Fabric, c, _ *Conn) {
		mr, err := c.Register(make([]byte, 100), verbs.LocalWrite)
		require.NoError(t, err)
		for range 3 {
			_, err := c.StartWrite(t.Context(), RemoteMemory{Addr: 4096, RKey: 77, Len: 100}, mr.SGE(0, 100))
			require.NoError(t, err)
		}
		p, err := c.StartSend(t.Context(), mr.SGE(0, 100))
		require.NoError(t, err)
		require.Error(t, p.Wait(t.Context()))
		var lost *LostError
		err = c.Close()
		require.ErrorAs(t, err, &lost)
		require.Equal(t, 3, lost.Operations)
		var status *StatusError
		require.ErrorAs(t, err, &status)
	})
}

// A connection that ends before all was done is no orderly end for its peer: not when this side's
// queue pair has failed, for a reason that the peer cannot see, and not when operations are under
// way. What came before is read first.
func TestPeerEndsEarly(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *Conn, mr *verbs.MR){
		"queue pair failed": func(t *testing.T, s *Conn, mr *verbs.MR) {
			p, err := s.StartSend(t.Context(), mr.SGE(60, 100)) // beyond the region
			require.NoError(t, err)
			require.Error(t, p.Wait(t.Context()))
			require.NoError(t, s.Close(), "somebody was told")
		},
		"operations under way": func(t *testing.T, s *Conn, mr *verbs.MR) {
			for range 4 { // for which there are receives no more
				require.NoError(t, s.Send(t.Context(), []byte("more")))
			}
			brief, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, s.Send(brief, []byte("too much")), context.DeadlineExceeded)
			start := time.Now()
			require.NoError(t, s.Close(), "somebody was told")
			require.Zero(t, time.Since(start))
		},
	} {
		t.Run(name, func(t *testing.T) {
			goodbyes(t, func(t *testing.T, _ *sim.Fabric, c, s *Conn) {
				require.NoError(t, s.Send(t.Context(), []byte("hello")))
				first, err := c.RecvMsg(t.Context())
				require.NoError(t, err)
				require.NoError(t, first.Release())
				mr, err := s.Register(make([]byte, 100), verbs.LocalWrite)
				require.NoError(t, err)
				end(t, s, mr)
				for {
					if _, err = c.RecvMsg(t.Context()); err != nil {
						break
					}
				}
				require.ErrorIs(t, err, ErrPeerGone)
				require.ErrorIs(t, err, syscall.ECONNRESET)
				require.ErrorIs(t, c.Wait(t.Context()), ErrPeerGone)
				require.Equal(t, ConnFailed, c.Stats().State)
			})
		})
	}
}

// A READ has nothing for the peer: to give it up is no reason for an error there. Nor is a probe of
// an idle connection.
func TestPeerEndsWithRead(t *testing.T) {
	sim.Test(t, sim.Config{
		Seed: 1, Up: sim.Pipe{Latency: 50 * time.Millisecond},
	}, func(t *testing.T, network *sim.Fabric) {
		ds := rocetest.SimDevices(t, network, 2)
		c, s := connPair(t, ds[0], ds[1], ConnConfig{})
		shared, err := s.Register(make([]byte, 100), RemoteRead)
		require.NoError(t, err)
		brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, c.Read(brief, make([]byte, 100), shared.Remote()), context.DeadlineExceeded)
		c.probe()
		require.NoError(t, c.Close())
		_, err = s.Recv(t.Context(), nil)
		require.Equal(t, io.EOF, err)
	})
}

func TestGoodbyeOfOthers(t *testing.T) {
	for _, b := range [][]byte{nil, {}, make([]byte, 220), goodbyeEarly()[:5], append([]byte{0}, goodbyeEarly()...)} {
		require.False(t, endedBeforeAll(b))
	}
	later := append(goodbyeEarly(), make([]byte, 214)...)
	later[4]++
	require.True(t, endedBeforeAll(later))
}
