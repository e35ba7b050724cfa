package verbs

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBufPool(t *testing.T) {
	d := openDevice(t, Config{Polling: true})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	p := NewBufPool(pd, 4<<20)
	for _, n := range []int{0, 1, 256, 257, 512, 513, 65536, 65537, MaxPoolBuf} {
		b, err := p.Get(n)
		require.NoError(t, err)
		require.Len(t, b.Bytes(), n)
		require.Equal(t, n, cap(b.Bytes()), "the neighbour is out of reach")
		require.EqualValues(t, n, b.SGE(n).Length)
		require.EqualValues(t, n, b.SGE(n+1).Length, "no more than it has")
		require.GreaterOrEqual(t, minPoolBuf<<poolClass(n), n)
		require.True(t, n <= minPoolBuf || minPoolBuf<<(poolClass(n)-1) < n, "no smaller class would do")
		b.Release()
		again, err := p.Get(n)
		require.NoError(t, err)
		b.Release()
		require.Nil(t, b.Bytes(), "it is another's now")
		require.Zero(t, b.SGE(n))
		require.Len(t, again.Bytes(), n, "a second Release of the one before is not its own")
		_, out := p.Stats()
		require.Equal(t, 1, out)
		again.Release()
	}
	for _, n := range []int{-1, MaxPoolBuf + 1} {
		_, err := p.Get(n)
		require.ErrorIs(t, err, ErrInvalidAttr)
	}
	// Buffers that are out at one time do not overlap.
	seen := map[*byte]bool{}
	var out []PoolBuf
	for range 300 {
		b, err := p.Get(1000)
		require.NoError(t, err)
		require.False(t, seen[&b.Bytes()[0]])
		seen[&b.Bytes()[0]] = true
		out = append(out, b)
	}
	_, buffers := p.Stats()
	require.Equal(t, 300, buffers)
	for _, b := range out {
		b.Release()
	}
	bytes, buffers := p.Stats()
	require.Zero(t, buffers)
	// The bound holds, and what is given back is used again.
	for {
		b, err := p.Get(MaxPoolBuf)
		if err != nil {
			require.ErrorIs(t, err, ErrLimit)
			break
		}
		out = append(out[:0], b)
	}
	last := out[0]
	memory := &last.Bytes()[0]
	last.Release()
	again, err := p.Get(MaxPoolBuf)
	require.NoError(t, err)
	require.Same(t, memory, &again.Bytes()[0])
	after, _ := p.Stats()
	require.LessOrEqual(t, after, 4<<20)
	require.Greater(t, after, bytes)

	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.NotPanics(t, func() { again.Bytes()[0] = 1; again.Release() })
	_, err = p.Get(1)
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, pd.Close(), "nothing holds on to the domain")
}

func TestBufPoolConcurrent(t *testing.T) {
	d := openDevice(t, Config{Polling: true})
	pd, err := d.AllocPD()
	require.NoError(t, err)
	p := NewBufPool(pd, 0)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				b, err := p.Get(1 + (i*37+g)%5000)
				if err != nil {
					t.Error(err)
					return
				}
				m := b.Bytes()
				for j := range m {
					m[j] = byte(g)
				}
				for j := range m {
					if m[j] != byte(g) {
						t.Error("somebody else has the buffer")
						return
					}
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	_, buffers := p.Stats()
	require.Zero(t, buffers)
}
