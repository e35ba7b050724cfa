package verbs

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// aloneReader counts the reads that begin while another one is under way.
type aloneReader struct {
	r           *rand.ChaCha8
	mu          sync.Mutex
	busy        atomic.Bool
	overlapping atomic.Int32
}

func (a *aloneReader) Read(b []byte) (int, error) {
	if !a.busy.CompareAndSwap(false, true) {
		a.overlapping.Add(1)
	}
	defer a.busy.Store(false)
	runtime.Gosched()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.r.Read(b)
}

// A device reads its source of random numbers by one goroutine at a time, whatever it draws from
// it: keys for regions, numbers of queue pairs.
func TestRandByOneAtATime(t *testing.T) {
	source := &aloneReader{r: rand.NewChaCha8([32]byte{1})}
	d := openDevice(t, Config{Rand: source})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	cq, err := d.CreateCQ(16, nil)
	require.NoError(t, err)
	both := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			<-both
			for range 200 {
				mr, err := pd.RegisterMR(make([]byte, 64), 0, nil)
				assert.NoError(t, err)
				assert.NoError(t, mr.Close())
			}
		})
		wg.Go(func() {
			<-both
			for range 200 {
				qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq, RecvCQ: cq})
				assert.NoError(t, err)
				assert.NoError(t, qp.Close())
			}
		})
	}
	close(both)
	wg.Wait()
	require.Zero(t, source.overlapping.Load())
}
