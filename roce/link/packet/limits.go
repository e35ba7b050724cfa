package packet

import "github.com/goroce/goroce/ib"

const (
	// asideTurns is how many receives there are for one that looks for packets handed on by others,
	// when no poll has said that there are any.
	asideTurns = 64

	// Packets leave from this port on, and how many there are of them.
	firstPort   = 0xC000
	sourcePorts = 4

	// maxPaths is how many flows a link remembers, so that paths can share them: peers, in
	// practice, by the ports. Beyond that it begins anew.
	maxPaths = 4096

	// vnetBytes is the size of struct virtio_net_hdr without num_buffers.
	vnetBytes = 10

	// rxBufferBytes holds the longest frame with its virtio header.
	rxBufferBytes = 64<<10 + 256

	// ringSlots is how many single packets the ring of a socket has room for.
	ringSlots = 1024
	// ringRun is how many packets share a slot when they come in runs: most are longer.
	ringRun = 8
	// maxRingPacket is the longest single packet that a slot has room for, bytes of
	// IP: that of the largest path MTU.
	maxRingPacket = ib.IPv6HeaderBytes + ib.UDPHeaderBytes + ib.MaxPacketBytes
	// ringBlockBytes is the size of the pieces of memory that the ring is made of;
	// a slot is in one of them.
	ringBlockBytes = 64 << 10
	// ringHeaderBytes is what is in a slot before the frame: the header with the
	// address (TPACKET2_HDRLEN), room for a MAC header, alignment.
	ringHeaderBytes = 96
	// ringAlign is TPACKET_ALIGNMENT.
	ringAlign = 16

	// defaultSocketBuffer is what is asked for, in bytes.
	defaultSocketBuffer = 16 << 20

	// loopbackIndex is the index of the loopback interface of a network namespace.
	loopbackIndex = 1

	// maxFilterAddrs is how many addresses of a family the kernel's filter
	// looks for. A link with more gets those of others on this machine, too,
	// and drops them itself.
	maxFilterAddrs = 200
)
