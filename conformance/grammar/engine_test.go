package grammar

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	packets = flag.Int64("grammar.packets", 0, "packets of TestLong; 0 is what `make test` has time for")
	life    = flag.Uint64("grammar.life", 15_000,
		"packets that one engine of TestLong lives for, or messages that one manager of TestLongCM does: the next one has other options")
	messages = flag.Int64("grammar.messages", 0, "messages of TestLongCM; 0 is what `make test` has time for")
	seed     = flag.Uint64("grammar.seed", 1, "first seed of TestLong and TestLongCM")
)

// long adds up the runs of TestLong and TestLongCM, and watches the heap between them.
type long struct {
	what        string // said and heard
	tell        bool   // of each run
	began       time.Time
	heap        uint64 // after the first run
	said, heard uint64
}

// lived takes a run that has ended. The heap is not to grow from run to run.
func (l *long) lived(t *testing.T, seed, said, heard uint64, counters any) {
	l.said, l.heard = l.said+said, l.heard+heard
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if l.heap == 0 {
		l.heap = m.HeapAlloc
	}
	require.Less(t, m.HeapAlloc, 2*l.heap+16<<20, "seed %d: the heap grows", seed)
	if l.tell {
		t.Logf("seed %d: %.1f M %s, %.0f/s, heap %d KiB; counters %+v",
			seed, float64(l.said)/1e6, l.what, float64(l.said)/time.Since(l.began).Seconds(), m.HeapAlloc>>10, counters)
	}
}

func (l *long) String() string {
	return fmt.Sprintf("%d %s said and %d heard in %v", l.said, l.what, l.heard,
		time.Since(l.began).Round(time.Millisecond))
}

// orDefault is how much a run of `make test` has time for, unless a flag says.
func orDefault(flag int64) uint64 {
	if flag != 0 {
		return uint64(flag)
	}
	return 60_000
}

// TestLong has engines hear a given number of packets: nothing panics, no byte beside a region
// changes, nothing malformed is sent, nothing goes on without an end, nothing is left at the end,
// and memory stays flat.
func TestLong(t *testing.T) {
	l := long{what: "packets", tell: *packets > 0, began: time.Now()}
	var posted, done, lives uint64
	var kinds [numKinds]uint64
	for n := *seed; l.said < orDefault(*packets); n++ {
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
		posted, done, lives = posted+r.Posted, done+r.Done, lives+r.Lives
		l.lived(t, n, r.Said, r.Heard, c)
	}
	t.Logf("%v; %d work requests, %d completions, %d connections", &l, posted, done, lives)
	for k, n := range kinds {
		t.Logf("%12d %v", n, Kind(k))
	}
}

// TestLongCM has communication managers hear a given number of messages: nothing panics, nothing
// malformed is sent, or to anybody that had not asked; no event comes twice, out of turn or by
// somebody else's message; no bound is exceeded, nothing is left at the end, and memory stays flat.
func TestLongCM(t *testing.T) {
	l := long{what: "messages", tell: *messages > 0, began: time.Now()}
	var requests, established, ended uint64
	for n := *seed; l.said < orDefault(*messages); n++ {
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
		requests, established, ended = requests+r.Requests, established+r.Established, ended+r.Ended
		l.lived(t, n, r.Said, r.Heard, s)
	}
	t.Logf("%v; %d requests taken, %d connections established, %d ended", &l, requests, established, ended)
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
