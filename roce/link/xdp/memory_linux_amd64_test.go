package xdp_test

import (
	"syscall"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/linktest"
)

// Whatever the kernel has no memory for.
func TestLacks(t *testing.T) {
	seeds.Slow(t)
	linktest.RunLacks(t, openXDP(generic), []linktest.SystemCall{
		{Name: "socket AF_XDP", Number: syscall.SYS_SOCKET, Args: []linktest.Arg{{N: 0, Is: unix.AF_XDP}}},
		{Name: "mmap of chunks", Number: syscall.SYS_MMAP,
			Args: []linktest.Arg{{N: 3, Is: unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE}}},
		{Name: "mmap of a ring", Number: syscall.SYS_MMAP,
			Args: []linktest.Arg{{N: 3, Is: unix.MAP_SHARED | unix.MAP_POPULATE}}},
		{Name: "bpf", Number: 321},
		{Name: "bind of UDP", Number: syscall.SYS_BIND, Args: []linktest.Arg{{N: 2, Is: syscall.SizeofSockaddrInet4}}},
		{Name: "eventfd", Number: syscall.SYS_EVENTFD2},
		linktest.Option("XDP_UMEM_REG", unix.SOL_XDP, unix.XDP_UMEM_REG),
		linktest.Option("XDP_RX_RING", unix.SOL_XDP, unix.XDP_RX_RING),
		linktest.Option("XDP_UMEM_FILL_RING", unix.SOL_XDP, unix.XDP_UMEM_FILL_RING),
	})
}
