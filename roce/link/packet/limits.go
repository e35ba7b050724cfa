package packet

import "github.com/goroce/goroce/ib"

const (
	// asideTurns is how many receives there are for each look for packets handed on by others, when
	// no poll has announced any.
	asideTurns = 64

	// Source ports of packets: the first, and their number.
	firstPort   = 0xC000
	sourcePorts = 4

	// maxPaths is how many flows a link remembers for sharing, which in practice is peers times
	// ports. Beyond that it starts over.
	maxPaths = 4096

	// vnetBytes is the size of struct virtio_net_hdr without num_buffers.
	vnetBytes = 10

	// rxBufferBytes holds the longest frame with its virtio header.
	rxBufferBytes = 64<<10 + 256

	// ringSlots is how many single packets the ring of a socket has room for.
	ringSlots = 1024
	// ringRun is how many packets share a slot when they come in runs: most runs are longer.
	ringRun = 8
	// maxRingPacket is the longest single packet that fits a slot, in bytes of IP: that of the
	// largest path MTU.
	maxRingPacket = ib.IPv6HeaderBytes + ib.UDPHeaderBytes + ib.MaxPacketBytes
	// ringBlockBytes is the size of the blocks of memory that the ring is made of; a slot lies
	// within one block.
	ringBlockBytes = 64 << 10
	// ringHeaderBytes precedes the frame in a slot: the header with the address (TPACKET2_HDRLEN),
	// room for a MAC header, alignment.
	ringHeaderBytes = 96
	// ringAlign is TPACKET_ALIGNMENT.
	ringAlign = 16

	// defaultSocketBuffer is the size to ask for, in bytes.
	defaultSocketBuffer = 16 << 20

	// loopbackIndex is the index of the loopback interface, the same in every network namespace.
	loopbackIndex = 1

	// maxFilterAddrs4 and maxFilterAddrs6 are how many addresses of a family the kernel's filter
	// checks. A link with more also gets packets for others on this machine, and drops them itself.
	// A filter and the next one that replaces it must fit net.core.optmem_max, which is 20 KiB
	// before Linux 6.8: two of IPv6 with 28 addresses each do not.
	maxFilterAddrs4, maxFilterAddrs6 = 200, 24
)
