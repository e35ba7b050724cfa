package sim_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// badNetwork is one on which everything goes wrong now and then.
var badNetwork = sim.Faults{Loss: 0.03, Duplicate: 0.02, Corrupt: 0.01, Reorder: 0.03, Jitter: 5000}

// openDevice opens a device that is closed at the end of the test.
func openDevice(t *testing.T, net *sim.Fabric, addr netip.Addr) *verbs.Device {
	t.Helper()
	d := openOn(net, addr)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// echoes runs a service with many clients on one device, which all begin at the same
// time, share workers, and are hit by one deadline. It returns what was seen.
func echoes(t *testing.T, cfg sim.Config) (seen string) {
	sim.Test(t, cfg, func(t *testing.T, net *sim.Fabric) {
		addr := netip.MustParseAddrPort("192.0.2.1:7000")
		server, client := openDevice(t, net, addr.Addr()), openDevice(t, net, netip.MustParseAddr("192.0.2.2"))
		l, err := (&roce.ListenConfig{ConnConfig: roce.ConnConfig{Device: server}}).ListenAddr(addr)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var service sync.WaitGroup
		service.Go(func() { _ = l.Serve(ctx, shout) })

		// The words come to the clients through a channel.
		words := make(chan string)
		var mu sync.Mutex
		var log []string
		var clients sync.WaitGroup
		for i := range 6 {
			clients.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				d := roce.Dialer{ConnConfig: roce.ConnConfig{Device: client}}
				c, err := d.DialAddr(ctx, addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				b := make([]byte, 64)
				note := func(word string) {
					mu.Lock()
					defer mu.Unlock()
					log = append(log, fmt.Sprint(net.Now(), i, word))
				}
				for w := range words {
					err := c.Send(ctx, []byte(w))
					n := 0
					if err == nil {
						n, err = c.Recv(ctx, b)
					}
					if err != nil || string(b[:n]) != strings.ToUpper(w) {
						t.Errorf("%q for %q, %v", b[:n], w, err)
						return
					}
					note(w)
				}
				// All wait for what does not come, until the same nanosecond.
				ctx, late := context.WithDeadline(ctx, time.Now().Truncate(time.Minute).Add(30*time.Second))
				defer late()
				_, err = c.Recv(ctx, b)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("no deadline: %v", err)
				}
				if err := c.Send(context.Background(), []byte(fmt.Sprint("bye", i))); err != nil {
					t.Error(err)
				}
				note("end")
			})
		}
		for i := range 60 {
			words <- fmt.Sprint("word", i)
			if i%10 == 0 {
				time.Sleep(time.Duration(i) * time.Microsecond)
			}
		}
		close(words)
		clients.Wait()
		stop()
		service.Wait()
		seen = strings.Join(append(log, net.Transcript(), fmt.Sprintf("%+v", net.Stats())), "\n")
	})
	return seen
}

// The same seed makes the same run, packet by packet; another one another run.
func TestSeedsRepeat(t *testing.T) {
	n := uint64(seeds.Fewer(6))
	if testing.Short() {
		n = 1
	}
	var all []string
	for _, shuffle := range []bool{false, true} {
		for seed := range n {
			cfg := sim.Config{Seed: seed, Faults: badNetwork, Shuffle: shuffle}
			first := echoes(t, cfg)
			for range 2 {
				require.Equal(t, first, echoes(t, cfg), "seed %d", seed)
			}
			require.NotContains(t, all, first)
			all = append(all, first)
		}
	}
}
