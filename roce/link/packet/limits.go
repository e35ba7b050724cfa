package packet

import (
	"github.com/goroce/goroce/ib"
)

const (
	ethernetBytes = 14
	vlanTagBytes  = 4
	// vnetBytes is the size of struct virtio_net_hdr without num_buffers.
	vnetBytes = 10

	// maxIPPacket is the longest IP packet, bytes: a 16-bit length.
	maxIPPacket = 65535

	// rxBufferBytes holds the longest frame with its virtio header.
	rxBufferBytes = 64<<10 + 256
	// defaultRxBuffers is how many full buffers one receive call takes; together
	// they should stay in the second-level cache.
	defaultRxBuffers = 4
	// maxRxBuffers is how many a call takes when frames are single packets.
	maxRxBuffers = 32

	// backlogBytes bounds what waits for the socket to take more.
	backlogBytes = 4 << 20
	// heldBytes bounds what waits for neighbours to be resolved, heldPerPath
	// what of it is for one path.
	heldBytes   = 1 << 20
	heldPerPath = 64 << 10

	// defaultSocketBuffer is what is asked for, in bytes.
	defaultSocketBuffer = 16 << 20

	// defaultTTL is the hop limit of paths that have none.
	defaultTTL = 64

	// maxFilterAddrs is how many addresses of a family the kernel's filter
	// looks for. A link with more gets those of others on this machine, too,
	// and drops them itself.
	maxFilterAddrs = 200

	ip4Overhead = ib.IPv4HeaderBytes + ib.UDPHeaderBytes
	ip6Overhead = ib.IPv6HeaderBytes + ib.UDPHeaderBytes
)
