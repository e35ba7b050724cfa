package roce

import (
	"context"
	"encoding/binary"
	"math"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/rdmacm"
	"github.com/goroce/goroce/roce/rdmacm/cm"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// heapBytes is what is in use on the heap, when nothing goes any more: what earlier tests have
// left, with its cleanups and pools, takes more than one collection.
func heapBytes() int {
	var m runtime.MemStats
	for least, same := uint64(math.MaxUint64), 0; same < 3; same++ {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapAlloc < least-min(least, 64<<10) {
			least, same = m.HeapAlloc, 0
		}
	}
	return int(m.HeapAlloc)
}

// floodBytes is what a flood can make a device hold: the connections of a listener that are
// half-open, one more that is being accepted, and the agent's own records.
const floodBytes = 64<<20 + 2<<20 + cm.FloodBytes

// A flood of requests, from as many addresses or from one, makes a listener hold no
// more than floodBytes, and an honest client gets in all the while.
func TestFloodIsBounded(t *testing.T) {
	// The honest clients let time pass, so that before each there are enough to fill the room.
	requests, lookEvery, honestEvery := uint32(6000), uint32(1000), uint32(500)
	if testing.Short() || seeds.Race {
		requests, lookEvery, honestEvery = 900, 300, 300
	}
	for name, source := range map[string]func(n uint32) netip.Addr{
		"spoofed": func(n uint32) netip.Addr {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], 0x0B000000+n)
			return netip.AddrFrom4(a)
		},
		"one source": func(uint32) netip.Addr { return netip.MustParseAddr("11.0.0.1") },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := rocetest.Context(t)
			ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 3}), 2)
			l := listenOn(t, ds[1], ListenConfig{})
			before, most := heapBytes(), 0
			halfBytes := 0
			for n := range requests {
				rocetest.Forge(t, ds[1], source(n+1), n+1, l.Addr())
				if n%64 == 63 {
					c, err := l.advance()
					require.NoError(t, err)
					require.Nil(t, c)
				}
				halfBytes = max(halfBytes, rdmacm.CountersOf(ds[1]).Now.HalfBytes)
				if n%lookEvery == lookEvery-1 {
					most = max(most, heapBytes()-before)
				}
				if n%honestEvery == honestEvery-1 {
					letIn(t, ctx, l, ds[0])
				}
			}
			st, counts := rdmacm.CountersOf(ds[1]).Stats, rdmacm.CountersOf(ds[1]).Now
			t.Logf("%d MiB, %d MiB of them by %d half-open connections; %d given up, %d not admitted, %d in TIMEWAIT",
				most>>20, halfBytes>>20, counts.HalfOpen, st.Evicted, st.DropBacklog, counts.Timewait)
			require.LessOrEqual(t, most, floodBytes)
			require.LessOrEqual(t, halfBytes, 64<<20+(&ConnConfig{}).memory())
			require.Greater(t, halfBytes, 64<<20/2, "the flood is one")
		})
	}
}

// letIn lets a client in through a flood. The listener gives up a connection whose client has not
// confirmed it for some virtual time, which may pass while that client's goroutine does not run.
// The client then finds its connection ended before the listener has it, and dials again.
func letIn(t *testing.T, ctx context.Context, l *Listener, client *verbs.Device) {
	var in atomic.Bool
	both(func() {
		server, err := l.Accept(ctx)
		in.Store(true)
		if err != nil {
			t.Error(err)
			return
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}, func() {
		d := Dialer{ConnConfig: ConnConfig{Device: client}}
		for !in.Load() {
			c, err := d.DialAddr(ctx, l.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			_, err = c.Recv(ctx, make([]byte, 1))
			if err == nil || ctx.Err() != nil {
				t.Error("nobody sends, and the connection ends in time:", err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// What a connection is said to hold is what it holds.
func TestConnMemoryEstimate(t *testing.T) {
	const n, tries = 100, 5
	said := (&ConnConfig{}).memory()
	var held int
	for range tries { // what another test has left may go in between, or come
		ds := rocetest.SimDevices(t, sim.New(sim.Config{Seed: 3}), 2)
		l := listenOn(t, ds[1], ListenConfig{})
		before := heapBytes()
		for i := range uint32(n) {
			rocetest.Forge(t, ds[1], netip.MustParseAddr("11.0.0.1"), i+1, l.Addr())
		}
		_, err := l.advance()
		require.NoError(t, err)
		require.Len(t, l.pending, n)
		held = (heapBytes() - before) / n
		runtime.KeepAlive(l)
		t.Logf("%d KiB each; said to be %d KiB", held>>10, said>>10)
		if held > said*3/4 && held < said*5/4 {
			break
		}
	}
	require.InDelta(t, said, held, float64(said)/4)
}
