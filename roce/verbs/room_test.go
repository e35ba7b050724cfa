package verbs

import (
	"testing"

	"github.com/goroce/goroce/roce/link/udp"
	"github.com/stretchr/testify/require"
)

// With the socket buffers that a user without privileges gets, READs ask for no more than the
// device's own buffer holds, however many are posted and however late it receives: nothing is asked
// for twice.
//
// A machine that stands still for a moment has what was asked for asked for once more, by a loss
// probe, and for that there need be no room: only what is lost each time is lost for another
// reason.
func TestReadsFitTheBuffer(t *testing.T) {
	const tries = 10
	var c Counters
	for range tries {
		if c = readManyAtOnce(t); c.ImpliedNAKs == 0 && c.RetransmittedPkts == c.LossProbes {
			return
		}
	}
	require.Zero(t, c.ImpliedNAKs, "a response was lost")
	require.Equal(t, c.LossProbes, c.RetransmittedPkts)
}

// readManyAtOnce returns the counters of the device that reads.
func readManyAtOnce(t *testing.T) Counters {
	const qps, reads, bytes = 4, 4, 1 << 20
	cfg := Config{UDP: udp.Options{SocketBufferBytes: 208 << 10}}
	a, b := newEnd(t, openDevice(t, cfg), bytes, QPInitAttr{}), newEnd(t, openDevice(t, cfg), bytes, QPInitAttr{})
	cq, err := a.d.CreateCQ(qps*reads, nil)
	require.NoError(t, err)
	for range qps {
		qp, err := a.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: cq})
		require.NoError(t, err)
		peer, err := b.pd.CreateQP(QPInitAttr{Type: RC, SendCQ: b.cq})
		require.NoError(t, err)
		// An ACK timeout of 34 s: the machine may be busy.
		require.NoError(t, qp.Connect(peer.LocalInfo(0), withTimeout(23, 7)))
		require.NoError(t, peer.Connect(qp.LocalInfo(0), withTimeout(23, 7)))
		for range reads {
			require.NoError(t, qp.PostSend(&SendWR{
				Opcode: WRRead, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, bytes)},
				RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
			}))
		}
	}
	ctx := testContext(t)
	wcs := make([]WC, qps*reads)
	for got := 0; got < qps*reads; {
		k, err := cq.Wait(ctx, wcs)
		require.NoError(t, err)
		for i := range wcs[:k] {
			require.NoError(t, WCError(&wcs[i]))
		}
		got += k
	}
	return a.d.Counters()
}
