package rsocket

import "time"

// Sizes of the protocol.
const (
	protocolVersion = 1
	connDataBytes   = 40
	sgeBytes        = 16
	iomapBytes      = 24
	grants          = 2 // entries of the list of grants
	// maxCtrl is how many messages other than DATA can be on their way at a
	// time; no receive request is reserved for them at the peer (librdmacm).
	maxCtrl = 4
)

// Defaults and bounds; those of the queues are librdmacm's.
const (
	// defaultBuffer is that of either direction, in bytes. firstLarge is what a connection goes on
	// with that needs more, and largeRecvBuffer the most that it has to receive. streamSend is
	// that of one that sends as fast as the peer takes it, and maxSend for what the peer does not
	// read: that of TCP (the third number of net.ipv4.tcp_wmem, as Linux has it). The large ones of
	// a device have maxLargeBytes.
	defaultBuffer   = 64 << 10
	firstLarge      = 512 << 10
	streamSend      = 2 << 20
	maxSend         = 4 << 20
	largeRecvBuffer = 4 << 20
	maxLargeBytes   = 512 << 20
	// growthRate is how many bytes a second the buffers of a device grow beyond firstLarge. A page
	// that is used for the first time can cost 20 times as much as what is copied to it.
	growthRate    = 4 << 20
	defaultQueue  = 384 // work requests
	minQueue      = 16
	maxQueue      = 0xFFFE
	maxBuffer     = 1 << 30
	minSendBuffer = 4096
	minRecvBuffer = 2
	maxIOMaps     = 0x7f << 8
	inlineBytes   = 64
	// defaultKeepAlive is the time between two probes of an idle connection: that
	// of package net.
	defaultKeepAlive = 15 * time.Second
	maxKeepAlive     = 1 << 60 // 36 years
	// lingerTime bounds how long Close waits, and how long a connection lingers that is closed, and
	// maxLingering and maxLingerBytes how many of a device do at a time.
	lingerTime     = 30 * time.Second
	maxLingering   = 1024
	maxLingerBytes = 128 << 20
	maxLingerSec   = 1 << 30
	// defaultBacklog is how many connections wait for Accept.
	defaultBacklog = 128
	maxBacklog     = 0xFFFF

	// What a connection holds besides its buffers, about: connBytes, and
	// queueBytes for each message that its queues have ever held at a time.
	connBytes  = 16 << 10
	queueBytes = 96
)

const (
	// startTransfer is the first transfer of a Write when nothing is on its way; each further one
	// is four times as large until maxTransfer, or the best for the path (see bestTransfer). So the
	// first packets travel while the rest is still being copied.
	startTransfer = 16 << 10
	maxTransfer   = 512 << 10
	// lowWater and lowWaterMost bound how much of the send buffer must be free before a
	// part of a larger Write is sent; between them it is a quarter.
	lowWater     = 2 << 10
	lowWaterMost = 64 << 10
	// quietBytes is how many bytes are sent at most without a completion.
	quietBytes = 32 << 10

	// spareRecvs are receive requests beyond those that the peer is told of,
	// for its control messages. Without them a control message to a side whose
	// application does nothing is repeated until it does something. Up to recvDebt are posted
	// again together, so that there are always 16.
	spareRecvs = 16 + recvDebt
	recvDebt   = 16
	// spareCredits are receive requests of the peer that data does not use, for
	// our control messages: librdmacm has no spare ones.
	spareCredits = 8

	pollBatch = 32 // completions handled at a time
)

// Addresses at which peers see our memory: not the real ones, which are
// nobody's business.
const (
	recvIOVA  = 0x1_0000_0000
	largeIOVA = 0x2_0000_0000
	listIOVA  = 0x1000
)
