package sockio

import (
	"time"

	"github.com/goroce/goroce/ib"
)

const (
	// MaxSegments is how many segments Linux takes in one datagram
	// (UDP_MAX_SEGMENTS since 6.9).
	MaxSegments = 128
	// MaxSegmentsOld is how many it took before 6.9. A sender that sees a longer
	// run refused tries with so many before it does without segmentation.
	MaxSegmentsOld = 64

	// maxVain is how many polls in a row may be ended by descriptors that nothing can be done with.
	maxVain = 16
	// napTime is how long the next ones do not look at them.
	napTime = time.Millisecond

	// MaxReadBatch is how many datagrams one call of Reader.Read takes at most.
	MaxReadBatch = 32
	// defaultReadBatch is how many it takes when they are long; together they
	// should stay in the second-level cache.
	defaultReadBatch = 4

	// ReadTries is how often a read is repeated that an error ended which is not
	// about what is to be read, such as the ICMP error of an earlier send.
	ReadTries = 16
	// minBuffered is what the shortest datagram takes of a receive buffer, or
	// less, in bytes: the kernel counts its descriptor and the memory around it.
	minBuffered = 512
	// maxOverrun is what a receive buffer may hold beyond its size: the kernel
	// looks whether it is full before a datagram is put there.
	maxOverrun = 128 << 10

	// packetCost and runCost are what a packet by itself and one of a run take of a
	// receive buffer beside their bytes.
	packetCost = 768
	runCost    = 64

	// CopyBytes is the payload up to which a packet is copied into the arena
	// instead of being sent from where it is. Measured: at 64 bytes copying is
	// more than twice as fast, at 1024 equal.
	CopyBytes = 512

	// BatchPackets is how many packets a Batch holds: what is prepared between
	// two system calls.
	BatchPackets = 256

	// MaxReserve is the most room at the front of a message, in bytes.
	MaxReserve = 96

	// arenaPerPacket is the space of a packet in the arena: room reserved,
	// headers, a copied payload, padding, ICRC.
	arenaPerPacket = MaxReserve + ib.MaxHeaderBytes + CopyBytes + 3 + ib.ICRCBytes

	// iovsPerPacket: headers, four fragments, trailer.
	iovsPerPacket = 6
	// maxIovs is UIO_MAXIOV, the iovecs of one datagram.
	maxIovs = 1024
)
