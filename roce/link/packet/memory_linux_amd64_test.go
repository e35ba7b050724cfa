package packet_test

import (
	"syscall"
	"testing"

	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/roce/link/linktest"
)

// Whatever the kernel has no memory for. The ring is one of the things that the link does without.
func TestLacks(t *testing.T) {
	seeds.Slow(t)
	linktest.RunLacks(t, openPacket(nil), []linktest.SystemCall{
		{Name: "socket of packets", Number: syscall.SYS_SOCKET, Args: []linktest.Arg{{N: 0, Is: syscall.AF_PACKET}}},
		{Name: "socket of netlink", Number: syscall.SYS_SOCKET, Args: []linktest.Arg{{N: 0, Is: syscall.AF_NETLINK}}},
		{Name: "socket of UDP", Number: syscall.SYS_SOCKET, Args: []linktest.Arg{{N: 0, Is: syscall.AF_INET}}},
		{Name: "bind of packets", Number: syscall.SYS_BIND,
			Args: []linktest.Arg{{N: 2, Is: syscall.SizeofSockaddrLinklayer}}},
		{Name: "mmap of the ring", Number: syscall.SYS_MMAP,
			Args: []linktest.Arg{{N: 3, Is: unix.MAP_SHARED | unix.MAP_POPULATE}}, Spare: true},
		{Name: "eventfd", Number: syscall.SYS_EVENTFD2},
		spare(linktest.Option("PACKET_VERSION", unix.SOL_PACKET, unix.PACKET_VERSION)),
		spare(linktest.Option("PACKET_RX_RING", unix.SOL_PACKET, unix.PACKET_RX_RING)),
		linktest.Option("PACKET_VNET_HDR", unix.SOL_PACKET, unix.PACKET_VNET_HDR),
		linktest.Option("SO_ATTACH_FILTER", unix.SOL_SOCKET, unix.SO_ATTACH_FILTER),
		spare(linktest.Option("SO_RCVBUFFORCE", unix.SOL_SOCKET, unix.SO_RCVBUFFORCE)),
	})
}

func spare(c linktest.SystemCall) linktest.SystemCall {
	c.Spare = true
	return c
}
