package core

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/goroce/goroce/internal/unix"
	"github.com/stretchr/testify/require"
)

// What the kernel refuses to pin is refused with its error.
func TestCheckMemory(t *testing.T) {
	const rw = unix.PROT_READ | unix.PROT_WRITE
	page := os.Getpagesize()
	mapped := func(pages, prot int) []byte {
		b, err := unix.Mmap(-1, 0, pages*page, prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(b)) })
		return b
	}
	good, readOnly, hidden := mapped(4, rw), mapped(4, unix.PROT_READ), mapped(4, unix.PROT_NONE)
	require.NoError(t, CheckMemory(good, true))
	require.NoError(t, CheckMemory(good[page-1:page+1], true), "any address")
	require.NoError(t, CheckMemory(nil, true))
	require.NoError(t, CheckMemory(readOnly, false))

	// Pages that are not mapped, behind, before and amid others.
	holes := mapped(8, rw)
	_, _, e := unix.Syscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(&holes[3*page])), uintptr(page), 0)
	require.Zero(t, e)
	require.Equal(t, syscall.EFAULT, CheckMemory(holes[:4*page], false))
	require.Equal(t, syscall.EFAULT, CheckMemory(holes[3*page:5*page], false))
	require.Equal(t, syscall.EFAULT, CheckMemory(holes, false))
	require.NoError(t, CheckMemory(holes[:3*page], true))

	if !canPopulate() {
		t.Log("the kernel has no MADV_POPULATE: rights are not checked")
		return
	}
	require.Equal(t, syscall.EFAULT, CheckMemory(readOnly, true))
	require.Equal(t, syscall.EFAULT, CheckMemory(readOnly[1:2], true))
	require.Equal(t, syscall.EFAULT, CheckMemory(hidden, false))
}
