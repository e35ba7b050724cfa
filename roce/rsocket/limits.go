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

// Defaults and bounds; the defaults are librdmacm's.
const (
	defaultBuffer = 128 << 10 // bytes, each direction
	defaultQueue  = 384       // work requests
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
	// lingerTime bounds how long a closed connection lingers, and maxLingering
	// and maxLingerBytes how many of a device do at a time.
	lingerTime     = 5 * time.Second
	maxLingering   = 1024
	maxLingerBytes = 128 << 20
	maxLingerSec   = 1 << 30
	// defaultBacklog is how many connections wait for Accept.
	defaultBacklog = 128
	maxBacklog     = 0xFFFF

	// What a connection holds besides its buffers, about: connBytes in all, and
	// queueBytes for each message of its queues.
	connBytes  = 16 << 10
	queueBytes = 96
)

const (
	// startTransfer is the first transfer of a Write; each further one is twice
	// as large until maxTransfer. So the first packets travel while the rest is
	// still being copied.
	startTransfer = 2 << 10
	maxTransfer   = 64 << 10
	// lowWater is how much of the send buffer must be free before a part of a
	// larger Write is sent.
	lowWater = 2 << 10

	// spareRecvs are receive requests beyond those that the peer is told of,
	// for its control messages. Without them a control message to a side whose
	// application does nothing is repeated until it does something.
	spareRecvs = 16
	// spareCredits are receive requests of the peer that data does not use, for
	// our control messages: librdmacm has no spare ones.
	spareCredits = 8

	pollBatch = 32 // completions handled at a time
)

// Addresses at which peers see our memory: not the real ones, which are
// nobody's business.
const (
	recvIOVA = 0x1_0000_0000
	listIOVA = 0x1000
)
