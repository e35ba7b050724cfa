package roce

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goroce/goroce/roce/internal/rocetest"
	"github.com/goroce/goroce/roce/verbs"
)

// A message is given back once, by whichever copy of it, and no copy gives back what came to its
// buffer afterwards.
func TestReleaseOfACopy(t *testing.T) {
	ctx := rocetest.Context(t)
	ds := openDevices(t, 2, verbs.Config{})
	const depth = 4
	c, s := connPair(t, ds[0], ds[1], ConnConfig{RecvDepth: depth})
	require.NoError(t, c.Send(ctx, []byte("one")))
	m, err := s.RecvMsg(ctx)
	require.NoError(t, err)
	before := m
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			other := before
			if err := other.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, m.Release())
	require.Nil(t, m.Bytes(), "it is the next one's")
	for round := range 3 {
		var got []Message
		for i := range depth {
			require.NoError(t, c.Send(ctx, fmt.Appendf(nil, "message %d", i)))
		}
		for range depth {
			m, err := s.RecvMsg(ctx)
			require.NoError(t, err)
			got = append(got, m)
			require.NoError(t, before.Release())
		}
		for i, m := range got {
			require.Equal(t, fmt.Sprintf("message %d", i), string(m.Bytes()), "round %d", round)
			require.NoError(t, m.Release())
			require.NoError(t, m.Release())
		}
	}
}
