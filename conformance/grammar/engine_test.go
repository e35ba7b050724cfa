package grammar

import (
	"flag"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	packets  = flag.Int64("grammar.packets", 0, "packets of TestLong; 0 is what `make test` has time for")
	life     = flag.Uint64("grammar.life", 15_000, "packets that one engine of TestLong lives for, or messages that one manager of TestLongCM does: the next one has other options")
	messages = flag.Int64("grammar.messages", 0, "messages of TestLongCM; 0 is what `make test` has time for")
	seed     = flag.Uint64("grammar.seed", 1, "first seed of TestLong and TestLongCM")
)

// TestLong has engines hear a given number of packets: nothing panics, no byte beside a region changes, nothing malformed is sent, nothing goes on
// without an end, nothing is left at the end, and memory stays flat.
func TestLong(t *testing.T) {
	total := *packets
	if total == 0 {
		total = 60_000
	}
	began, base := time.Now(), uint64(0)
	var said, heard, posted, done, lives uint64
	var kinds [numKinds]uint64
	for n := *seed; said < uint64(total); n++ {
		r, err := NewEngineRun(FromSeed(n))
		require.NoError(t, err)
		for r.Said < *life {
			if err := r.Step(); err != nil {
				t.Fatalf("seed %d, packet %d: %v", n, r.Said, err)
			}
		}
		c := r.Engine.Counters()
		require.NoError(t, r.Finish(), "seed %d", n)
		require.LessOrEqual(t, c.RcvdPkts, r.Said, "seed %d", n)
		for k := range kinds {
			kinds[k] += r.Speaker.Kinds[k]
		}
		said, heard, posted, done, lives = said+r.Said, heard+r.Heard, posted+r.Posted, done+r.Done, lives+r.Lives
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if base == 0 {
			base = m.HeapAlloc
		}
		require.Less(t, m.HeapAlloc, 2*base+16<<20, "seed %d: the heap grows", n)
		if *packets > 0 {
			t.Logf("seed %d: %.1f M packets, %.0f/s, heap %d KiB; counters %+v", n, float64(said)/1e6, float64(said)/time.Since(began).Seconds(), m.HeapAlloc>>10, c)
		}
	}
	t.Logf("%d packets said and %d heard in %v; %d work requests, %d completions, %d connections", said, heard, time.Since(began).Round(time.Millisecond), posted, done, lives)
	for k, n := range kinds {
		t.Logf("%12d %v", n, Kind(k))
	}
}

// TestLongCM has communication managers hear a given number of messages: nothing panics, nothing malformed is sent, or to anybody that had not
// asked; no event comes twice, out of turn or by somebody else's message; no bound is exceeded, nothing is left at the end, and memory stays flat.
func TestLongCM(t *testing.T) {
	total := *messages
	if total == 0 {
		total = 60_000
	}
	began, base := time.Now(), uint64(0)
	var said, heard, requests, established, ended uint64
	for n := *seed; said < uint64(total); n++ {
		r, err := NewManagerRun(FromSeed(n))
		require.NoError(t, err)
		for r.Said < *life {
			if err := r.Step(); err != nil {
				t.Fatalf("seed %d, message %d: %v", n, r.Said, err)
			}
		}
		s := r.Agent.Stats()
		require.NoError(t, r.Finish(), "seed %d", n)
		got := s.DropMalformed + s.DropClass
		for _, x := range s.Rx {
			got += x
		}
		require.Equal(t, r.Said, got, "seed %d", n)
		said, heard, requests, established, ended = said+r.Said, heard+r.Heard, requests+r.Requests, established+r.Established, ended+r.Ended
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if base == 0 {
			base = m.HeapAlloc
		}
		require.Less(t, m.HeapAlloc, 2*base+16<<20, "seed %d: the heap grows", n)
		if *messages > 0 {
			t.Logf("seed %d: %.1f M messages, %.0f/s, heap %d KiB; counters %+v", n, float64(said)/1e6, float64(said)/time.Since(began).Seconds(), m.HeapAlloc>>10, s)
		}
	}
	t.Logf("%d messages said and %d heard in %v; %d requests taken, %d connections established, %d ended", said, heard, time.Since(began).Round(time.Millisecond), requests, established, ended)
	require.NotZero(t, established)
}

// The same choices give the same run.
func TestRepeatable(t *testing.T) {
	run := func(n uint64) uint64 {
		r, err := NewEngineRun(FromSeed(n))
		require.NoError(t, err)
		for r.Said < 3000 {
			require.NoError(t, r.Step())
		}
		return r.sum()
	}
	require.Equal(t, run(7), run(7))
	require.NotEqual(t, run(7), run(8))
}

// FuzzEngine is TestLong with the choices of a fuzzer.
func FuzzEngine(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 16 {
		b := make([]byte, 500+300*i)
		for j := range b {
			b[j] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d := FromBytes(in)
		r, err := NewEngineRun(d)
		require.NoError(t, err)
		for !d.Done() && r.Said < 20_000 {
			require.NoError(t, r.Step())
		}
		require.NoError(t, r.Finish())
	})
}
