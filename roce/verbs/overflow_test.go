package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A queue that was full returns what it has and then tells: nobody waits for
// completions that were lost.
func TestCQOverflow(t *testing.T) {
	for mode, open := range modes {
		t.Run(mode, func(t *testing.T) {
			d := open(t)
			pd, err := d.AllocPD()
			require.NoError(t, err)
			cq, err := d.CreateCQ(2, nil)
			require.NoError(t, err)
			qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq})
			require.NoError(t, err)
			require.NoError(t, qp.ToInit(0))
			for id := range uint64(3) {
				require.NoError(t, qp.PostRecv(&RecvWR{ID: id}))
			}
			require.NoError(t, qp.Modify(QPAttr{State: StateErr}, AttrState))
			ctx := testContext(t)
			ev, err := d.AsyncEvent(ctx)
			require.NoError(t, err)
			require.Equal(t, EventCQError, ev.Type)
			require.Same(t, cq, ev.CQ)
			var wcs [1]WC
			for id := range uint64(2) {
				n, err := cq.Wait(ctx, wcs[:])
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.Equal(t, id, wcs[0].ID)
			}
			for range 2 {
				n, err := cq.Wait(ctx, wcs[:])
				require.ErrorIs(t, err, ErrCQOverflow)
				require.Zero(t, n)
				n, err = cq.Poll(wcs[:])
				require.ErrorIs(t, err, ErrCQOverflow)
				require.Zero(t, n)
			}
		})
	}
}
