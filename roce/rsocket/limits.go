package rsocket

import "time"

// Sizes of the protocol.
const (
	protocolVersion = 1
	connDataBytes   = 40
	sgeBytes        = 16
	iomapBytes      = 24
	grants          = 2 // entries of the list of grants
	// maxCtrl is how many messages other than DATA can be on their way at a time; the peer reserves
	// no receive request for them (librdmacm).
	maxCtrl = 4
)

// Defaults and bounds; those of the queues are librdmacm's.
const (
	// defaultBuffer is the size of either direction's buffer, in bytes. A connection that needs
	// more gets firstLarge, and at most nearRecvBuffer to receive, or largeRecvBuffer over a long
	// path. It sends through streamSend if the peer takes the data as fast as it comes, and through
	// maxSend if the path is long or the peer does not read: TCP's limit (the third number of
	// net.ipv4.tcp_wmem on Linux). The large buffers of a device share maxLargeBytes.
	defaultBuffer   = 64 << 10
	firstLarge      = 512 << 10
	streamSend      = 2 << 20
	maxSend         = 4 << 20
	nearRecvBuffer  = 4 << 20
	largeRecvBuffer = 8 << 20
	maxLargeBytes   = 512 << 20
	// growthRate is how many bytes a second the buffers of a device grow beyond firstLarge. Using a
	// page for the first time can cost 20 times as much as copying data to it.
	growthRate    = 4 << 20
	defaultQueue  = 384 // work requests
	minQueue      = 16
	maxQueue      = 0xFFFE
	maxBuffer     = 1 << 30
	minSendBuffer = 4096
	minRecvBuffer = 2
	maxIOMaps     = 0x7f << 8
	inlineBytes   = 64
	// defaultKeepAlive is the time between two probes of an idle connection, as in package net.
	defaultKeepAlive = 15 * time.Second
	maxKeepAlive     = 1 << 60 // 36 years
	// lingerTime bounds how long Close waits, and how long a closed connection lingers;
	// maxLingering and maxLingerBytes bound how many of a device linger at a time.
	lingerTime     = 30 * time.Second
	maxLingering   = 1024
	maxLingerBytes = 128 << 20
	maxLingerSec   = 1 << 30
	// defaultBacklog is how many connections wait for Accept.
	defaultBacklog = 128
	maxBacklog     = 0xFFFF

	// The approximate memory of a connection besides its buffers: connBytes, and queueBytes for
	// each message that its queues have ever held at a time.
	connBytes  = 16 << 10
	queueBytes = 96
)

const (
	// startTransfer is the first transfer of a Write when nothing is on its way. Each further one
	// is four times as large, up to maxTransfer, or the best for the path (see bestTransfer). So
	// the first packets travel while the rest is still being copied.
	startTransfer = 16 << 10
	maxTransfer   = 512 << 10
	// lowWater and lowWaterMost bound how much of the send buffer must be free before a part of a
	// larger Write is sent; between them it is a quarter.
	lowWater     = 2 << 10
	lowWaterMost = 64 << 10
	// quietBytes is how many bytes are sent at most without a completion.
	quietBytes = 32 << 10

	// spareRecvs are receive requests that the peer is not told of, for its control messages.
	// Without them, a control message to a side whose application does nothing is repeated until it
	// does something. Up to recvDebt are posted again together, so that there are always 16.
	spareRecvs = 16 + recvDebt
	recvDebt   = 16
	// spareCredits are receive requests of the peer that are kept for our control messages:
	// librdmacm has no spare ones.
	spareCredits = 8

	pollBatch = 32 // completions handled at a time
)

// Addresses at which peers see our memory; they hide the real ones.
const (
	recvIOVA  = 0x1_0000_0000
	largeIOVA = 0x2_0000_0000
	listIOVA  = 0x1000
)
