package linktest

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/transport/edge"
	"github.com/stretchr/testify/require"
)

// A link has caught up with a mark when Recv has found nothing more, and not while
// packets of a run are left, though they come one by one.
func testMark(t *testing.T, p Pair) {
	m := p.B
	if _, driven := link.As[link.Driven](m); driven {
		t.Skip("a driven link has handed up all when Recv returns 0")
	}
	r := rand.New(rand.NewPCG(7, 7))
	path := NewPath(p.A, p.B)
	const n = 20
	batch := make([]edge.TxPacket, n)
	for i := range batch {
		batch[i] = Packet(r, path, 64)
	}
	one := make([]edge.RxPacket, 1)
	for range 3 {
		m.Mark()
		require.False(t, m.CaughtUp())
		SendAll(t, p.A, batch)
		for got, last := 0, p.B.Now(); got < n; {
			k, err := p.B.Recv(one)
			require.NoError(t, err)
			if k == 0 {
				require.True(t, m.CaughtUp())
				require.NoError(t, p.B.Wait(giveUp))
				require.Less(t, p.B.Now()-last, int64(giveUp), "after %d of %d packets", got, n)
				m.Mark()
				continue
			}
			require.False(t, m.CaughtUp())
			got, last = got+1, p.B.Now()
		}
		k, err := p.B.Recv(one)
		require.NoError(t, err)
		require.Zero(t, k)
		require.True(t, m.CaughtUp())
	}
}
