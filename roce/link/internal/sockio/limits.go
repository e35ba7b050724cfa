package sockio

import (
	"time"

	"github.com/goroce/goroce/ib"
)

const (
	// MaxSegments is how many segments Linux allows in one datagram (UDP_MAX_SEGMENTS since 6.9).
	MaxSegments = 128
	// MaxSegmentsOld is the limit before 6.9. A sender whose longer run was refused tries this many
	// before it gives up segmentation.
	MaxSegmentsOld = 64

	// MaxVain is how many polls in a row may end early by descriptors without any progress.
	MaxVain = 16
	// NapTime is how long the following polls ignore them.
	NapTime = time.Millisecond

	// MaxReadBatch is the most datagrams of one call of Reader.Read.
	MaxReadBatch = 32
	// defaultReadBatch is the number of long datagrams that it takes; together they should stay in
	// the second-level cache.
	defaultReadBatch = 4

	// ReadTries is how often to repeat a read that failed with an error about something else, such
	// as the ICMP error of an earlier send.
	ReadTries = 16
	// minBuffered is the least that the shortest datagram takes of a receive buffer, in bytes: the
	// kernel counts its descriptor and the memory around it.
	minBuffered = 512
	// maxOverrun is what a receive buffer may hold beyond its size: the kernel checks whether it is
	// full before it adds a datagram.
	maxOverrun = 128 << 10

	// packetCost and runCost are what a single packet and one of a run take of a receive buffer
	// besides their bytes.
	packetCost = 768
	runCost    = 64

	// copyBytes is the payload up to which a packet is copied into the arena rather than sent in
	// place. Measured: at 64 bytes copying is more than twice as fast, at 1024 equal.
	copyBytes = 512

	// BatchPackets is how many packets a Batch holds: those prepared between two system calls.
	BatchPackets = 256

	// MaxReserve is the most room at the front of a message, in bytes.
	MaxReserve = 96

	// arenaPerPacket is the space of a packet in the arena: reserved room, headers, a copied
	// payload, padding, ICRC.
	arenaPerPacket = MaxReserve + ib.MaxHeaderBytes + copyBytes + 3 + ib.ICRCBytes

	// iovsPerPacket: headers, four fragments, trailer.
	iovsPerPacket = 6
	// maxIovs is UIO_MAXIOV, the iovecs of one datagram.
	maxIovs = 1024
)
