package udp

import "github.com/goroce/goroce/ib"

const (
	// maxSegments is how many segments Linux takes in one datagram
	// (UDP_MAX_SEGMENTS: 128 since 6.9, 64 before).
	maxSegments    = 128
	maxSegmentsOld = 64

	// maxDatagram4 and maxDatagram6 bound the UDP payload of one send, segmented
	// or not, in bytes: a 16-bit length less the headers.
	maxDatagram4 = 65535 - ib.IPv4HeaderBytes - ib.UDPHeaderBytes
	maxDatagram6 = 65535 - ib.IPv6HeaderBytes - ib.UDPHeaderBytes

	// copyBytes is the payload up to which a packet is copied into the arena
	// instead of being sent from where it is. Measured: at 64 bytes copying is
	// more than twice as fast, at 1024 equal.
	copyBytes = 512

	// arenaPerPacket is the space of a packet in the arena: headers, a copied
	// payload, padding, ICRC.
	arenaPerPacket = ib.MaxHeaderBytes + copyBytes + 3 + ib.ICRCBytes

	// sendBatch is how many packets are prepared between two system calls.
	sendBatch = 256
	// iovsPerPacket: headers, four fragments, trailer.
	iovsPerPacket = 6
	// maxIovs is UIO_MAXIOV, the iovecs of one datagram.
	maxIovs = 1024

	// backlogBytes bounds what waits for the socket to take more.
	backlogBytes = 4 << 20

	// rxBufferBytes holds the longest datagram.
	rxBufferBytes = 64 << 10
	// defaultRxBuffers is how many full buffers one receive call takes; together
	// they should stay in the second-level cache.
	defaultRxBuffers = 4
	// maxRxBuffers is how many a call takes when datagrams are single packets.
	maxRxBuffers = 32

	// defaultSocketBuffer is what is asked for, in bytes.
	defaultSocketBuffer = 16 << 20

	// defaultTTL is the hop limit of the sockets.
	defaultTTL = 64
)
