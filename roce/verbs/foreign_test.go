package verbs

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mapForeign maps memory as a program in another language might.
func mapForeign(t testing.TB, n, prot int) []byte {
	b, err := unix.Mmap(-1, 0, n, prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
	return b
}

// What the kernel refuses to pin is refused with its error.
func TestForeignMemory(t *testing.T) {
	const rw = unix.PROT_READ | unix.PROT_WRITE
	a, _ := simPair(t, sim.New(sim.Config{Seed: 1}), 64)
	page := os.Getpagesize()
	foreign := MROptions{Foreign: true}
	register := func(b []byte, access Access) error {
		mr, err := a.pd.RegisterMRWith(b, access, foreign)
		if err == nil {
			require.NoError(t, mr.Close())
		}
		return err
	}
	good, readOnly, hidden := mapForeign(t, 4*page, rw), mapForeign(t, 4*page, unix.PROT_READ), mapForeign(t, 4*page, unix.PROT_NONE)
	require.NoError(t, register(good, AccessAll))
	require.NoError(t, register(good[page-1:page+1], AccessAll), "any address")
	require.NoError(t, register(nil, AccessAll))
	require.NoError(t, register(readOnly, RemoteRead))

	// Pages that are not mapped, behind, before and amid others.
	holes := mapForeign(t, 8*page, rw)
	_, _, e := unix.Syscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(&holes[3*page])), uintptr(page), 0)
	require.Zero(t, e)
	require.ErrorIs(t, register(holes[:4*page], RemoteRead), syscall.EFAULT)
	require.ErrorIs(t, register(holes[3*page:5*page], RemoteRead), syscall.EFAULT)
	require.ErrorIs(t, register(holes, RemoteRead), syscall.EFAULT)
	require.NoError(t, register(holes[:3*page], AccessAll))

	if !canPopulate() {
		t.Log("the kernel has no MADV_POPULATE: rights are not checked")
		return
	}
	for _, access := range []Access{LocalWrite, LocalWrite | RemoteWrite, MWBind} {
		require.ErrorIs(t, register(readOnly, access), syscall.EFAULT, "%v", access)
		require.ErrorIs(t, register(readOnly[1:2], access), syscall.EFAULT)
	}
	require.ErrorIs(t, register(hidden, RemoteRead), syscall.EFAULT)

	// A region stays what it was if the change is refused.
	mr, err := a.pd.RegisterMRWith(readOnly, RemoteRead, foreign)
	require.NoError(t, err)
	key := mr.LKey()
	require.ErrorIs(t, mr.Reregister(Rereg{Access: AccessAll, SetAccess: true, Options: foreign}), syscall.EFAULT)
	require.ErrorIs(t, mr.Reregister(Rereg{Bytes: hidden, Options: foreign}), syscall.EFAULT)
	require.Equal(t, key, mr.LKey())
	require.NoError(t, mr.Reregister(Rereg{Bytes: good, Access: AccessAll, SetAccess: true, Options: foreign}))
	require.NotEqual(t, key, mr.LKey())
	require.NoError(t, mr.Close())
}

// A terabyte, of which next to nothing is there, is a region as others are.
func TestSparseTerabyte(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("there is no room for a terabyte in 32 bits")
	}
	size := int(uint64(1) << 40 >> (64 - strconv.IntSize)) // a terabyte as a constant would be no int of 32 bits
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Skipf("this machine does not map a terabyte: %v", err)
	}
	defer func() { require.NoError(t, unix.Munmap(b)) }()
	a, z := simPair(t, sim.New(sim.Config{Seed: 1}), 4096)
	const iova uint64 = 0x7fff_0000_1000 // any
	mr, err := z.pd.RegisterMRWith(b, AccessAll, MROptions{Foreign: true, IOVA: iova, SetIOVA: true})
	require.NoError(t, err)
	require.EqualValues(t, size, mr.Len())
	for _, off := range []uint64{0, 1<<39 + 123, uint64(size) - 4096} {
		fill(a.buf, off)
		require.NoError(t, a.qp.PostSend(&SendWR{
			Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 4096)}, RemoteAddr: iova + off, RKey: mr.RKey(),
		}))
		a.wait(t, testContext(t))
		require.Equal(t, a.buf, b[off:off+4096])
	}
	require.NoError(t, a.qp.PostSend(&SendWR{
		Opcode: WRWrite, Flags: SendSignaled, SGList: []SGE{a.mr.SGE(0, 4096)}, RemoteAddr: iova + uint64(size) - 4095, RKey: mr.RKey(),
	}))
	require.Equal(t, WCRemoteAccessErr, a.completion(t, testContext(t)).Status)
	require.NoError(t, mr.Close())
}
