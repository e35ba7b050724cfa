package verbs

import (
	"testing"

	"github.com/goroce/goroce/internal/core"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// The room of a send queue is what PostSend takes, to the last request.
func TestSendRoom(t *testing.T) {
	f := sim.New(sim.Config{Seed: 1})
	a, b := simPair(t, f, 64)
	_, caps, err := a.qp.Query()
	require.NoError(t, err)
	write := &SendWR{Opcode: WRWrite, SGList: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	for range 3 {
		for left := caps.MaxSendWR; left > 0; left-- {
			require.Equal(t, left, core.Open(a.qp).SendRoom())
			require.NoError(t, a.qp.PostSend(write))
		}
		require.Zero(t, core.Open(a.qp).SendRoom())
		require.ErrorIs(t, a.qp.PostSend(write), ErrQueueFull)
		for f.Step() {
		}
		require.Equal(t, caps.MaxSendWR, core.Open(a.qp).SendRoom())
	}

	require.NoError(t, a.qp.Modify(QPAttr{State: StateErr}, AttrState))
	require.Equal(t, caps.MaxSendWR, core.Open(a.qp).SendRoom(), "they are flushed")
	require.NoError(t, a.qp.Modify(QPAttr{State: StateReset}, AttrState))
	require.Zero(t, core.Open(a.qp).SendRoom())
	require.ErrorIs(t, a.qp.PostSend(write), ErrInvalidState)
	require.NoError(t, b.qp.Close())
	require.Zero(t, core.Open(b.qp).SendRoom())
	require.NoError(t, a.d.Close())
	require.Zero(t, core.Open(a.qp).SendRoom())
	require.Zero(t, core.Open(new(QP)).SendRoom())
}
