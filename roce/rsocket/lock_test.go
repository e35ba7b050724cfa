package rsocket

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// One at a time holds it.
func TestLock(t *testing.T) {
	var l lock
	var wg sync.WaitGroup
	n := 0
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				l.Lock()
				n++
				if n%7 == 0 {
					runtime.Gosched()
				}
				l.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 8000, n)
	require.Equal(t, lockFree, l.state.Load())
}

// Those who wait get it in the order in which they came, and are seen to wait.
func TestLockOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lock
		var order []int
		l.Lock()
		for i := range 5 {
			go func() {
				l.Lock()
				defer l.Unlock()
				order = append(order, i)
			}()
			synctest.Wait()
		}
		l.Unlock()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
	})
}

func BenchmarkLock(b *testing.B) {
	for _, l := range []sync.Locker{&sync.Mutex{}, &lock{}} {
		b.Run("", func(b *testing.B) {
			for b.Loop() {
				l.Lock()
				//lint:ignore SA2001 the lock itself is measured
				l.Unlock()
			}
		})
	}
}
