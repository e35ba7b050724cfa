package packet

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
)

// Options has the options of the link. Only Addrs is required.
type Options struct {
	// Addrs are the local addresses, in the order of the GID table.
	Addrs []netip.Addr
	// Port is the UDP port of both ends; 0 is 4791. Other implementations know only 4791.
	Port uint16
	// DisableGSO sends every packet in a frame of its own.
	DisableGSO bool
	// SocketBufferBytes is the size of the socket buffers to ask for; 0 is 16 MiB, the most 1 GiB.
	SocketBufferBytes int
	// RxBuffers is how many frames (of up to 64 KiB) one receive call takes; 0 is
	// 4. More than 8 leaves the second-level cache of most CPUs, and 32 is the most.
	RxBuffers int
	// DisableRing makes all frames come by system calls, and none through memory shared with the
	// kernel.
	DisableRing bool
	// MTU lowers the MTU found from the interfaces.
	MTU ib.MTU
	// VLAN, 1 to 4094, makes the link send frames with this 802.1Q tag, whose priority is the upper
	// three bits of the DSCP, and receive only such frames. All addresses must be on one interface.
	// 0 means frames without a tag.
	VLAN uint16
	// RxeFlush sends FLUSH requests with the ICRC that Linux rdma_rxe expects, which differs from
	// the specification. Received FLUSHes are accepted with either.
	RxeFlush bool
	// Exclusive reserves the addresses for this link: it receives packets for any queue pair
	// number. Other links at these addresses, in any process, are refused. It is for programs
	// without a device; a device uses only numbers of its own slot.
	Exclusive bool
}
