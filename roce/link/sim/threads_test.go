package sim_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostedDevice opens a device of a process, which is closed at the end of the test.
func hostedDevice(t *testing.T, net *sim.Fabric, p *sim.Process, addr string) *verbs.Device {
	t.Helper()
	l, err := p.Link(netip.MustParseAddr(addr))
	require.NoError(t, err)
	d, err := verbs.Open(verbs.Config{Link: l, Rand: net.Rand()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// serveEchoes starts a server that answers requests with as many bytes.
func serveEchoes(ctx context.Context, t *testing.T, p *sim.Process, d *verbs.Device, addr netip.AddrPort,
	work time.Duration) (wait func()) {
	t.Helper()
	l, err := (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: d}}).ListenAddr(addr)
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Add(1)
	p.Go(func() {
		defer all.Done()
		for {
			c, err := l.Accept(ctx)
			p.Resumed()
			if err != nil {
				return
			}
			all.Add(1)
			p.Go(func() {
				defer all.Done()
				defer c.Close()
				b := make([]byte, 4096)
				for {
					n, err := c.Recv(ctx, b)
					if err != nil {
						return
					}
					p.Work(work)
					if err := c.Send(ctx, b[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	return func() { _ = l.Close(); all.Wait() }
}

// One connection on a machine with two CPUs is as fast as where CPUs are free: both ends look for
// packets, and no wake-up is paid for.
func TestThreadsRequests(t *testing.T) {
	sim.OnThreads(t, sim.Config{Seed: 1}, func(t *testing.T, net *sim.Fabric) {
		m := net.Machine(sim.MachineConfig{CPUs: 2})
		ps, pc := m.Process(sim.ProcessConfig{}), m.Process(sim.ProcessConfig{})
		server, client := hostedDevice(t, net, ps, "192.0.2.1"), hostedDevice(t, net, pc, "192.0.2.2")
		ctx, stop := context.WithCancel(t.Context())
		addr := netip.MustParseAddrPort("192.0.2.1:7000")
		wait := serveEchoes(ctx, t, ps, server, addr, time.Microsecond)
		done := make(chan error)
		const requests = 200
		var took []time.Duration
		var cpu time.Duration
		pc.Go(func() {
			done <- func() error {
				d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: client}}
				c, err := d.DialAddr(ctx, addr)
				if err != nil {
					return err
				}
				defer c.Close()
				b := make([]byte, 128)
				for i := range requests {
					if i == requests/2 {
						cpu = -ps.CPUTime() - pc.CPUTime()
					}
					start := net.Now()
					if err := c.Send(ctx, b); err != nil {
						return err
					}
					if _, err := c.Recv(ctx, b); err != nil {
						return err
					}
					pc.Work(time.Microsecond)
					took = append(took, time.Duration(net.Now()-start))
				}
				cpu += ps.CPUTime() + pc.CPUTime()
				return nil
			}()
		})
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		stop()
		wait()
		require.Len(t, took, requests)
		slices.Sort(took[requests/2:])
		p50 := took[requests*3/4]
		t.Log("p50", p50, "CPU", cpu/(requests/2), "waited", ps.LongestWait(), pc.LongestWait())
		require.Less(t, p50, 50*time.Microsecond)
		require.Greater(t, p50, 5*time.Microsecond) // two packets each way, with their system calls
		require.Less(t, max(ps.LongestWait(), pc.LongestWait()), time.Millisecond)
		require.Empty(t, append(ps.Faults(), pc.Faults()...))
	})
}

// The CPU time of a process includes what a goroutine has done and not yet paid for. A goroutine
// that is not known to run has no thread.
func TestProcessRan(t *testing.T) {
	sim.OnThreads(t, sim.Config{Seed: 1}, func(t *testing.T, net *sim.Fabric) {
		const call = 700 * time.Nanosecond
		m := net.Machine(sim.MachineConfig{CPUs: 1, Costs: sim.Costs{Syscall: call}})
		p := m.Process(sim.ProcessConfig{})
		l, err := p.Link(netip.MustParseAddr("192.0.2.1"))
		require.NoError(t, err)
		require.Zero(t, p.Thread())
		done := make(chan [2]int64)
		p.Go(func() {
			before := p.ProcessRan()
			l.Wake()
			assert.NotZero(t, p.Thread())
			done <- [2]int64{before, p.ProcessRan()}
		})
		ran := <-done
		require.Equal(t, ran[0]+int64(call), ran[1])
		require.NoError(t, l.Close())
	})
}
