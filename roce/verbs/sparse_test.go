package verbs

import (
	"strconv"
	"testing"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
)

// A terabyte, of which next to nothing is there, is a region as others are.
func TestSparseTerabyte(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("there is no room for a terabyte in 32 bits")
	}
	size := int(uint64(1) << 40 >> (64 - strconv.IntSize)) // a terabyte as a constant would be no int of 32 bits
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Skipf("this machine does not map a terabyte: %v", err)
	}
	defer func() { require.NoError(t, unix.Munmap(b)) }()
	a, z := simPair(t, sim.New(sim.Config{Seed: 1}), 4096)
	const iova uint64 = 0x7fff_0000_1000 // any
	mr, err := z.pd.RegisterMR(b, AccessAll, &MROptions{IOVA: iova, SetIOVA: true})
	require.NoError(t, err)
	require.EqualValues(t, size, mr.Len())
	for _, off := range []uint64{0, 1<<39 + 123, uint64(size) - 4096} {
		fill(a.buf, off)
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 4096)}, RemoteAddr: iova + off,
			RKey: mr.RKey(),
		}))
		a.wait(t, testContext(t))
		require.Equal(t, a.buf, b[off:off+4096])
	}
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 4096)},
		RemoteAddr: iova + uint64(size) - 4095, RKey: mr.RKey(),
	}))
	require.Equal(t, WCRemoteAccessErr, a.completion(t, testContext(t)).Status)
	require.NoError(t, mr.Close())
}
