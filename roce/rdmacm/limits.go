package rdmacm

import (
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/transport"
)

// Sizes of the communication manager's own queue pair.
const (
	cmRecvs = 512 // datagrams that can arrive between two looks
	cmSends = 256 // datagrams on their way out
	// cmHalfOpen bounds the connections that were accepted but not confirmed by the peer. Each has
	// a queue pair and its buffers. Further requests wait for the peers of these, and the oldest is
	// given up when its peer does not answer. One peer gets half of them, so that a client that
	// opens a thousand connections at a time, as cmtime does, gets in without waiting for many of
	// its own repetitions.
	cmHalfOpen = 1024
	// cmHalfOpenBytes bounds the memory of these connections: those of a Listener with the defaults
	// hold 288 KiB each, so about 220 fit.
	cmHalfOpenBytes = 64 << 20
)

// lookNs is the time between two questions to a process that we have connections to: if it was
// killed or restarted, it does not say so by itself.
const lookNs = 500e6

// Private data available to the application, in bytes. Peers receive the whole field, padded with
// zeros: the length is not sent.
const (
	MaxConnectPrivate   = mad.REQUserBytes        // 56, of [ID.Connect], port space TCP
	MaxConnectPrivateUD = mad.SIDRReqUserBytes    // 180, of [ID.Connect], port space UDP
	MaxAcceptPrivate    = mad.REPPrivateBytes     // 196, of [ID.Accept], port space TCP
	MaxAcceptPrivateUD  = mad.SIDRRepPrivateBytes // 136, of [ID.Accept], port space UDP
	MaxRejectPrivate    = mad.REJPrivateBytes     // 148, of [ID.Reject]
	MaxDisconnectData   = mad.DREQPrivateBytes    // 220, of [ID.Disconnect]
)

// UDQKey is the Q_Key of queue pairs of port space UDP, and of multicast groups joined through
// RDMA-CM.
const UDQKey ib.QKey = 0x01234567

// Defaults of connections made through the communication manager.
const (
	// defaultCMTimeout is the code of the ACK timeout that a REQ proposes for both ends: 268 ms.
	defaultCMTimeout ib.TimeoutCode = 16
	// maxPeerTimeout bounds the ACK timeout that a peer's REQ makes ours: 8.6 s. With
	// code 31, 2.4 hours, this side would not find out in a day that the peer is gone.
	maxPeerTimeout ib.TimeoutCode = 21
	// cmAckDelay is what a REP says this side may take to acknowledge: as rdma_rxe, 134 ms.
	cmAckDelay ib.TimeoutCode = 15
	// defaultRetry is the maximum, and defaultRNRRetry means for ever.
	defaultRetry    = 7
	defaultRNRRetry = 7
	defaultHopLimit = 64

	// defaultMinRNRTimer is 0.64 ms. A peer that counts its tries gets 655 ms, as from a kernel.
	defaultMinRNRTimer ib.RNRCode = 12

	// maxRdAtomic is the most READs and atomics outstanding on a connection.
	maxRdAtomic = transport.MaxRdAtomic
	// cmRdAtomic is how many READs and atomics a connection offers to serve and asks for.
	cmRdAtomic = 16
	// MaxTries and MaxRetryInterval bound the arguments of SetRetries.
	MaxTries         = 1 << 20
	MaxRetryInterval = time.Hour
	// MaxSilenceTimeout bounds the argument of SetSilenceTimeout.
	MaxSilenceTimeout = 24 * time.Hour
	// ephemeral ports, from Linux's range
	firstEphemeral = 32768
	lastEphemeral  = 60999
)
