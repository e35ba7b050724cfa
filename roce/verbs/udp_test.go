package verbs

import (
	"math/rand/v2"
	"testing"

	"github.com/goroce/goroce/ib"
	"github.com/stretchr/testify/require"
)

func fill(b []byte, seed uint64) {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
}

// exercise runs every operation once, at sizes around packet boundaries, and checks every byte.
func exercise(t *testing.T, a, b *end, sizes []int) {
	ctx := testContext(t)
	for i, n := range sizes {
		fill(a.buf[:n], uint64(i))
		b.see()
		require.NoError(t, a.qp.PostSend(&SendWR{
			ID: 1, Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, n)},
			RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		}))
		require.Equal(t, WCWrite, a.wait(t, ctx).Opcode)
		b.see()
		require.Equal(t, a.buf[:n], b.buf[:n], "WRITE of %d", n)

		clear(a.buf[:n])
		require.NoError(t, a.qp.PostSend(&SendWR{
			ID: 2, Opcode: WRRead, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, n)},
			RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		}))
		require.Equal(t, WCRead, a.wait(t, ctx).Opcode)
		require.Equal(t, b.buf[:n], a.buf[:n], "READ of %d", n)

		fill(a.buf[:n], uint64(1000+i))
		require.NoError(t, b.qp.PostRecv(&RecvWR{ID: 3, SGList: []SGE{b.mr.SGE(0, n)}}))
		require.NoError(t, a.qp.PostSend(&SendWR{
			ID: 4, Opcode: WRSendImm, Flags: SendSignaled, Imm: 0xABCD, SGList: []SGE{a.mr.SGE(0, n)},
		}))
		wc := b.wait(t, ctx)
		require.Equal(t, WCRecv, wc.Opcode)
		require.EqualValues(t, n, wc.ByteLen)
		require.EqualValues(t, 0xABCD, wc.Imm)
		require.Equal(t, a.buf[:n], b.buf[:n], "SEND of %d", n)
		require.Equal(t, WCSend, a.wait(t, ctx).Opcode)
	}
	b.see()
	b.mr.Bytes()[0] = 5
	clear(b.buf[1:8])
	b.see()
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRFetchAdd, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), CompareAdd: 37,
	}))
	a.wait(t, ctx)
	b.see()
	require.EqualValues(t, 5, a.buf[0])
	require.EqualValues(t, 42, b.buf[0])
	b.see()
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRCompareSwap, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 8)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), CompareAdd: 42, Swap: 43,
	}))
	a.wait(t, ctx)
	b.see()
	require.EqualValues(t, 42, a.buf[0])
	require.EqualValues(t, 43, b.buf[0])
}

var exerciseSizes = []int{0, 1, 255, 256, 257, 1023, 1024, 1025, 4096, 4097, 65536, 100_001, 1 << 20}

func TestOperations(t *testing.T) {
	for name, cfg := range variants {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, 1<<20, cfg)
			exercise(t, a, b, exerciseSizes)
			for _, e := range []*end{a, b} {
				c := e.d.Counters()
				require.Zero(t, c.DropICRC)
				require.Zero(t, c.DropMalformed)
			}
		})
	}
}

func TestOperationsMTUs(t *testing.T) {
	for m := ib.MTU256; m <= ib.MTU4096; m++ {
		t.Run(m.String(), func(t *testing.T) {
			a, b := pair(t, 1<<20, Config{}, withMTU(m))
			exercise(t, a, b, exerciseSizes)
		})
	}
}
