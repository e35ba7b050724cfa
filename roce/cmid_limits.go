package roce

import (
	"time"

	"github.com/goroce/goroce/ib"
)

// Sizes of the communication manager's own queue pair.
const (
	cmRecvs = 512 // datagrams that can arrive between two looks
	cmSends = 256 // datagrams on their way out
	// cmHalfOpen bounds the connections that were accepted and whose peer has not
	// shown that it knows. Each has a queue pair and its buffers. Further requests wait
	// for the peers of these, and the oldest is given up when its peer does not answer. One peer has half of them, so that a client that
	// opens a thousand connections at a time, as cmtime does, gets in without
	// waiting for many of its own repetitions.
	cmHalfOpen = 1024
	// cmHalfOpenBytes bounds the memory of these connections: those of a Listener
	// with the defaults hold 288 KiB each, so that there are about 220.
	cmHalfOpenBytes = 64 << 20
)

// Private data that is left to the application, in bytes. Peers receive the
// whole field, filled up with zeros: the length does not travel.
const (
	MaxConnectPrivate   = 56  // of [CMID.Connect], port space TCP
	MaxConnectPrivateUD = 180 // of [CMID.Connect], port space UDP
	MaxAcceptPrivate    = 196 // of [CMID.Accept], port space TCP
	MaxAcceptPrivateUD  = 136 // of [CMID.Accept], port space UDP
	MaxRejectPrivate    = 148 // of [CMID.Reject]
	MaxDisconnectData   = 220 // of [CMID.Disconnect]
)

// UDQKey is the Q_Key of queue pairs of port space UDP, and of multicast groups joined through RDMA-CM.
const UDQKey ib.QKey = 0x01234567

// Defaults of connections made through the communication manager.
const (
	// defaultCMTimeout is the code of the ACK timeout that a REQ proposes for both ends: 268 ms.
	defaultCMTimeout ib.TimeoutCode = 16
	// maxPeerTimeout bounds the ACK timeout that a peer's REQ makes ours: 8.6 s. With
	// code 31, 2.4 hours, whoever sends would not find out in a day that the peer is gone.
	maxPeerTimeout ib.TimeoutCode = 21
	// cmAckDelay is what a REP says this side may take to acknowledge: as rdma_rxe, 134 ms.
	cmAckDelay ib.TimeoutCode = 15
	// cmRdAtomic is how many READs and atomics a connection offers to serve and asks for.
	cmRdAtomic = 16
	// defaultBacklog is how many connections of a Listener wait for Accept.
	defaultBacklog = 1024
	// maxCMTries and maxCMIntervalNs bound what SetRetries takes.
	maxCMTries      = 1 << 20
	maxCMIntervalNs = 3600e9
	// resolveTimeout bounds the look into the kernel's routing table.
	resolveTimeout = time.Second
	// ephemeral ports, the range that Linux takes them from.
	firstEphemeral = 32768
	lastEphemeral  = 60999
)
