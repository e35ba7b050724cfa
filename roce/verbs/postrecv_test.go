package verbs

import (
	"testing"

	"github.com/goroce/goroce/transport"
	"github.com/stretchr/testify/require"
)

// A receive posted in ERR is flushed at once, and a goroutine that waits for completions is
// told, although nothing else happens on the device.
func TestPostRecvInErrWakes(t *testing.T) {
	post := map[string]func(*QP) error{
		"one":   func(qp *QP) error { return qp.PostRecv(&RecvWR{ID: 9}) },
		"batch": func(qp *QP) error { _, err := qp.PostRecvBatch([]RecvWR{{ID: 9}}); return err },
	}
	for mode, open := range modes {
		for name, post := range post {
			t.Run(mode+"/"+name, func(t *testing.T) {
				d := open(t)
				ch, err := d.CreateCompletionChannel()
				require.NoError(t, err)
				cq, err := d.CreateCQ(10, &CQOptions{Channel: ch})
				require.NoError(t, err)
				pd, err := d.AllocPD()
				require.NoError(t, err)
				qp, err := pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq})
				require.NoError(t, err)
				require.NoError(t, qp.ToInit(0))
				require.NoError(t, qp.Modify(QPAttr{State: StateErr}, AttrState))
				require.NoError(t, cq.RequestNotify(false))
				require.NoError(t, post(qp))
				got, err := ch.Get(testContext(t))
				require.NoError(t, err)
				require.Same(t, cq, got)
				var wcs [2]WC
				n, err := cq.Poll(wcs[:])
				require.NoError(t, err)
				require.Equal(t, 1, n)
				require.Equal(t, WCFlushErr, wcs[0].Status)
				require.EqualValues(t, 9, wcs[0].ID)
			})
		}
	}
}

// A peer that was told that there are no receives is told at once when there are.
func TestPostRecvGivesCredits(t *testing.T) {
	cfg := Config{Tuning: transport.Tuning{EndToEndCredits: true}}
	a, b := pair(t, 100, cfg)
	require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 10)}}))
	require.NoError(t, a.qp.PostSend(&SendWR{Opcode: WRSend, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 10)}}))
	ctx := testContext(t)
	a.wait(t, ctx) // the acknowledgement said 0
	b.wait(t, ctx)
	before := b.d.Counters().SentPkts
	require.NoError(t, b.qp.PostRecv(&RecvWR{SGList: []SGE{b.mr.SGE(0, 10)}}))
	require.Equal(t, before+1, b.d.Counters().SentPkts)
}
