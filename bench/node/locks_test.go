package node

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseMutexProfile(t *testing.T) {
	sums, err := parseMutexProfile(bytes.NewBufferString(`--- mutex:
cycles/second=1000
sampling period=1
500 2 @ 0x1 0x2 0x3
#	0x1	sync.(*Mutex).Unlock+0x11				/go/src/sync/mutex.go:65
#	0x2	github.com/x/shard.(*Shard).Unlock+0x8	/x/shard.go:1
#	0x3	github.com/x/verbs.(*QP).PostSend+0x9	/x/qp.go:1
#	0x3	main.main+0x9	/x/main.go:1

250 1 @ 0x1 0x2
#	0x1	internal/sync.(*Mutex).Unlock+0x11	/go/src/sync/mutex.go:65
#	0x2	github.com/x/verbs.(*QP).PostSend+0x19	/x/qp.go:2
`))
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"github.com/x/verbs.(*QP).PostSend": 0.75}, sums)
	for _, bad := range []string{"", "--- mutex:\n1 1 @ 0x1\n"} {
		_, err := parseMutexProfile(bytes.NewBufferString(bad))
		require.Error(t, err)
	}
}

// Who holds what others wait for is named.
func TestLocks(t *testing.T) {
	n := new(Node)
	var waits []LockWait
	for len(waits) == 0 { // a goroutine that was not yet waiting is not in the profile
		require.NoError(t, n.StartLocks(struct{}{}, nil))
		var mu sync.Mutex
		mu.Lock()
		waiting := make(chan struct{})
		passed := false
		var wg sync.WaitGroup
		wg.Go(func() {
			close(waiting)
			mu.Lock()
			passed = true
			mu.Unlock()
		})
		<-waiting
		for range 1000 {
			runtime.Gosched()
		}
		mu.Unlock()
		wg.Wait()
		require.True(t, passed)
		require.NoError(t, n.StopLocks(struct{}{}, &waits))
	}
	for _, w := range waits {
		require.Positive(t, w.Seconds)
		require.False(t, ofLocks(w.Func), w.Func)
	}
}
