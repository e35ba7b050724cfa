package xdp

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
	// MTU lowers the MTU found from the interfaces.
	MTU ib.MTU
	// VLAN, 1 to 4094, makes the link send frames with this 802.1Q tag, whose priority is the upper
	// three bits of the DSCP, and receive only such frames. All addresses must be on one interface,
	// which must not remove tags (ethtool -K DEVICE rxvlan off). 0 means frames without a tag.
	VLAN uint16
	// RxeFlush sends FLUSH requests with the ICRC that Linux rdma_rxe expects, which differs from
	// the specification. Received FLUSHes are accepted with either.
	RxeFlush bool

	// DisableNative, DisableZeroCopy and DisableMultiBuffer exclude ways of attaching; see the
	// package comment.
	DisableNative      bool
	DisableZeroCopy    bool
	DisableMultiBuffer bool
	// Queues, if not 0, serves only that many receive queues of each interface, the first ones.
	// Something must then steer the traffic there; packets by other queues are lost.
	Queues int
	// RxFrames and TxFrames are the numbers of frames of each queue; powers of two. 0 is 2048 and
	// 512.
	RxFrames, TxFrames int
}
