package sim_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rsocket"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// pages has clients post to a service of net/http over rsockets, each its own bodies, all at
// the same time; then, after a pause, the service shuts down.
func pages(t *testing.T, cfg sim.Config, pause time.Duration) (seen string) {
	sim.Test(t, cfg, func(t *testing.T, network *sim.Fabric) {
		addr := netip.MustParseAddrPort("192.0.2.1:80")
		l, err := (&rsocket.ListenConfig{Device: openDevice(t, network, addr.Addr())}).ListenAddr(addr)
		require.NoError(t, err)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(b)
		})}
		var service sync.WaitGroup
		service.Go(func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		var clients sync.WaitGroup
		var devices []*verbs.Device
		for i := range 3 {
			devices = append(devices, openDevice(t, network, netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})))
		}
		for i := range 6 {
			clients.Go(func() {
				d := rsocket.Dialer{Device: devices[i%3]}
				transport := &http.Transport{DialContext: d.DialContext}
				defer transport.CloseIdleConnections()
				client := http.Client{Transport: transport, Timeout: time.Minute}
				for j := range 5 {
					want := bytes.Repeat([]byte{byte(i), byte(j)}, 1000*i*j)
					r, err := client.Post("http://192.0.2.1/", "text/plain", bytes.NewReader(want))
					if err != nil {
						t.Error(err)
						continue
					}
					got, err := io.ReadAll(r.Body)
					_ = r.Body.Close()
					if err != nil || !bytes.Equal(want, got) {
						t.Errorf("%d bytes of %d: %v", len(got), len(want), err)
					}
				}
				time.Sleep(pause)
			})
		}
		clients.Wait()
		time.Sleep(pause) // a close may be lost: Shutdown closes what is left in the order of a map
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		service.Wait()
		seen = network.Transcript()
	})
	return seen
}

// net/http repeats, too.
func TestHTTPRepeats(t *testing.T) {
	n := uint64(seeds.Fewer(4))
	if testing.Short() {
		n = 1
	}
	for seed := range n {
		cfg := sim.Config{Seed: seed, Faults: badNetwork}
		first := pages(t, cfg, time.Second)
		for range 3 {
			require.Equal(t, first, pages(t, cfg, time.Second), "seed %d", seed)
		}
	}
}

// A service that shuts down right after its last answer closes connections whose peers have not
// acknowledged it, with a mutex of net/http's held that other goroutines want: a Close that waits
// would stand the simulation still.
func TestHTTPShutsDownAtOnce(t *testing.T) {
	for seed := range uint64(seeds.Fewer(4)) {
		pages(t, sim.Config{Seed: seed, Faults: badNetwork}, 0)
	}
}
