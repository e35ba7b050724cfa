package udp

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
)

// Options has the options of the link. The zero value is right for most uses.
type Options struct {
	// Port is the UDP port of both ends; 0 is 4791. Other implementations know only 4791.
	Port uint16
	// DisableGSO sends every packet as a datagram of its own.
	DisableGSO bool
	// DisableGRO receives every packet as a datagram of its own.
	DisableGRO bool
	// DisableSourcePorts sends everything from Port. Otherwise connections leave by several ports,
	// so that networks and receivers can spread them.
	DisableSourcePorts bool
	// SocketBufferBytes is the size of the socket buffers to ask for; 0 is 16 MiB, the most 1 GiB.
	// The kernel may grant less (net.core.rmem_max, wmem_max); Capabilities has the granted size.
	SocketBufferBytes int
	// RxBuffers is how many datagrams (of up to 64 KiB) one receive call takes;
	// 0 is 4. More than 8 leaves the second-level cache of most CPUs, and 32 is the most.
	RxBuffers int
	// MTU overrides the MTU found from the interfaces.
	MTU ib.MTU
	// RxeFlush sends FLUSH requests with the ICRC that Linux rdma_rxe expects, which differs from
	// the specification; rxe drops others. Received FLUSHes are accepted with either.
	RxeFlush bool
}

// OpenError says why a socket could not be opened, and what to do.
type OpenError = link.OpenError
