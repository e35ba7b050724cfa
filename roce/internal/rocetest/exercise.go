package rocetest

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/roce/verbs"
	"github.com/stretchr/testify/require"
)

// Exercise does each operation, with messages of the sizes, from a to b.
func Exercise(t *testing.T, a, b *End, sizes []int) {
	ctx := Context(t)
	for i, n := range sizes {
		Fill(a.Buf[:n], uint64(i))
		b.See()
		require.NoError(t, a.QP.PostSend(&verbs.SendWR{
			ID: 1, Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.MR.SGE(0, n)},
			RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(),
		}))
		require.Equal(t, verbs.WCWrite, a.Wait(t, ctx).Opcode)
		b.See()
		require.Equal(t, a.Buf[:n], b.Buf[:n], "WRITE of %d", n)

		clear(a.Buf[:n])
		require.NoError(t, a.QP.PostSend(&verbs.SendWR{
			ID: 2, Opcode: verbs.WRRead, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.MR.SGE(0, n)},
			RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(),
		}))
		require.Equal(t, verbs.WCRead, a.Wait(t, ctx).Opcode)
		require.Equal(t, b.Buf[:n], a.Buf[:n], "READ of %d", n)

		Fill(a.Buf[:n], uint64(1000+i))
		require.NoError(t, b.QP.PostRecv(&verbs.RecvWR{ID: 3, SGList: []verbs.SGE{b.MR.SGE(0, n)}}))
		require.NoError(t, a.QP.PostSend(&verbs.SendWR{
			ID: 4, Opcode: verbs.WRSendImm, Flags: verbs.SendSignaled, Imm: 0xABCD, SGList: []verbs.SGE{a.MR.SGE(0, n)},
		}))
		wc := b.Wait(t, ctx)
		require.Equal(t, verbs.WCRecv, wc.Opcode)
		require.EqualValues(t, n, wc.ByteLen)
		require.EqualValues(t, 0xABCD, wc.Imm)
		require.Equal(t, a.Buf[:n], b.Buf[:n], "SEND of %d", n)
		require.Equal(t, verbs.WCSend, a.Wait(t, ctx).Opcode)
	}
	b.See()
	b.MR.Bytes()[0] = 5
	clear(b.Buf[1:8])
	b.See()
	require.NoError(t, a.QP.PostSend(&verbs.SendWR{
		Opcode: verbs.WRFetchAdd, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.MR.SGE(0, 8)},
		RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(), CompareAdd: 37,
	}))
	a.Wait(t, ctx)
	b.See()
	require.EqualValues(t, 5, a.Buf[0])
	require.EqualValues(t, 42, b.Buf[0])
	b.See()
	require.NoError(t, a.QP.PostSend(&verbs.SendWR{
		Opcode: verbs.WRCompareSwap, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.MR.SGE(0, 8)},
		RemoteAddr: b.MR.Addr(), RKey: b.MR.RKey(), CompareAdd: 42, Swap: 43,
	}))
	a.Wait(t, ctx)
	b.See()
	require.EqualValues(t, 42, a.Buf[0])
	require.EqualValues(t, 43, b.Buf[0])
}

// See makes visible to this goroutine what the device of e wrote for its peer, and to the device
// what this goroutine wrote: a one-sided operation makes no completion that would.
func (e *End) See() { e.QP.State() }

// Fill fills b with bytes that depend on a seed.
func Fill(b []byte, seed uint64) {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
}
