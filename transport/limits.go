package transport

import "time"

// Limits of the verbs objects. Those that rdma_rxe has too carry its values
// (max_sge, max_qp_wr, max_cqe, max_qp_rd_atom), so that a program sized for
// it fits.
const (
	MaxQPs         = 1 << 20 // queue pairs of an engine
	MaxQueueWR     = 1 << 20 // work requests of one queue
	MaxSGE         = 32      // scatter/gather elements of a work request
	MaxInline      = 1024    // bytes of inline data of a send work request
	MaxCQE         = 1 << 22 // completions that a CQ holds
	MaxRdAtomic    = 128     // READs and atomics outstanding, either role
	MaxMessage     = 1 << 31 // bytes of one message (IBTA C9-51)
	MaxRetryCnt    = 7       // three bits in the CM
	MaxRNRRetry    = 7       // 7 is for ever
	MaxSilenceNs   = 1 << 50 // of QPAttr.SilenceNs: 13 days
	maxFlowLabel   = 1<<20 - 1
	minQPN         = 16 // 0 to 15 are left to special QPs, as in rdma_rxe
	maxQPNAttempts = 64 // random QPNs tried before giving up
)

// RNRRetryForever is the value of rnr_retry that never gives up.
const RNRRetryForever = 7

// Defaults of Tuning and of attributes.
const (
	// DefaultMaxUnackedPackets bounds the send window of a QP, in packets.
	// rdma_rxe uses 128. Two datagrams of 128 small packets, and 1 MiB of large
	// ones, are the least that keeps both ends at work: with half of that WRITEs
	// of 1 MiB got little more than half as far on one machine. Packets of long messages count by
	// their bytes: see longBytes.
	DefaultMaxUnackedPackets = 256
	// DefaultAckReqInterval is the largest number of packets of a message
	// without AckReq. An acknowledgement is a datagram of its own and costs as
	// much as 15 packets of 4096 bytes that travel as one: 64 is what rdma_rxe
	// does (65), 16 was a third slower on loopback.
	DefaultAckReqInterval = 64
	// maxTuningTime bounds the times of Tuning.
	maxTuningTime = time.Minute
	// DefaultLossProbeNs is the least time without an answer before the last packet
	// is sent again: what a busy machine may keep a process waiting for. The ACK
	// timeout is 67 ms by default.
	DefaultLossProbeNs = 1e6
	// DefaultSeqNAKRearmNs is how long a responder waits before it repeats the
	// sequence NAK of a gap. rdma_rxe recovers a lost NAK by its timeout only.
	DefaultSeqNAKRearmNs = 2e6
	// DefaultFatalLingerNs is how long the NAK of a request that failed is repeated
	// for duplicates of that request and of earlier ones.
	DefaultFatalLingerNs = 5e9
	// askAgainNs bounds the time between two retries of a QP that outlasts a peer's silence, unless
	// the ACK timeout is longer: so soon it finds that the peer is back.
	askAgainNs = 1e9
	// DefaultHopLimit replaces a hop limit of 0.
	DefaultHopLimit = 64
)

// Limits and steps of the send queue.
const (
	// maxFlight is how many packets by themselves are on their way to an address at
	// most, from all QPs together: with 10 us for each, which a peer takes that has to
	// answer each by a datagram, they are answered well before the usual timeout.
	maxFlight = 1024
	// runsCount is how many packets of runs count as one by itself.
	runsCount = 4
	// fewPackets is how many packets by themselves on their way to an address are so few that one
	// more is sent at once: those of a few conversations, each of which waits for its answer.
	fewPackets = 4
	// leastFlight is the part of the bound that loss leaves of it, as a divisor.
	leastFlight = 16
	// headerRoom is what headers take of a packet in a receive buffer, in bytes:
	// Ethernet, IP, UDP, those of RoCE, ICRC.
	headerRoom = 96
	// readQuantum is how many packets of a READ's response a QP waits for room for,
	// at most.
	readQuantum = 32
	// maxReadPackets is more packets than any READ has.
	maxReadPackets = 1 << 30
	// txQuantum is how many packets a QP may send on one turn: at 4096 bytes
	// four segmented datagrams of 15, at 1024 bytes one of 60.
	txQuantum = 60
	// longBytes is the least length of a message whose packets are counted by their bytes; maxLong
	// bounds how many times more of them than usual there may be, as a power of 2: to 1024 by
	// default, at a path MTU of 1024 or less. With 256 of them both ends waited for each other for
	// a quarter of the time.
	longBytes = 4096
	maxLong   = 2
	// maxApart is the most packets of a WRITE or READ that leaves as messages of one packet each.
	// The packets of longer ones fill datagrams by themselves.
	maxApart = 64
	// apartDepth is how many READs that are apart the depth of the connection has room for, at
	// least.
	apartDepth = 8
	// minSendSlots is the size of a send queue's ring after its first request; it doubles on
	// demand. Of thousands of QPs with a request each now and then the whole ring passes through
	// the cache.
	minSendSlots = 4
	// minRecvSlots is the same for a receive queue, and minCQSlots for the ring of a completion
	// queue, which doubles when that many completions wait, and when it has been round busyCQ
	// times. Most never get there.
	minRecvSlots = 4
	minCQSlots   = 16
	busyCQ       = 64
)

// Steps of loss recovery.
const (
	// minWindow is the least that loss leaves of the send window, in packets.
	minWindow = 4
	// minEpisodeNs is how long after going back a sequence NAK that shows no progress is taken to
	// be about the same loss, if no round trip is known.
	minEpisodeNs = 1e6
	// minRepeatNs is how long after asking for the rest of a READ a gap in its
	// responses is taken to be an old one: more than packets overtake each other.
	minRepeatNs = 100e3
)

// Limits of loss probes.
const (
	// maxProbes is how many are sent before the ACK timeout.
	maxProbes = 2
	// maxProbing is how many QPs of an engine may have a probe that nothing has
	// answered.
	maxProbing = 32
	// probeRetry is after how many times its wait a QP that found no place tries
	// again.
	probeRetry = 8
	// maxProbeBackoff bounds the doublings of the wait.
	maxProbeBackoff = 16
)

// Limits and steps of selective repeat.
const (
	// maxReorder is how many packets may overtake one that is not taken to be lost.
	maxReorder = 3
	// maxSpread is how many that become where packets were sent again for nothing, and spreadLosses
	// is after how many losses it is maxReorder again.
	maxSpread    = 256
	spreadLosses = 256
	// maxDoubt is how often the time doubles after which a response is lost that was asked for again.
	maxDoubt = 2
	// heavyLoss is the part of what was on its way, as a divisor, of which a path that loses more of
	// it has no room for.
	heavyLoss = 8
	// minReorderNs is the least time that a packet is given that may have been overtaken, if fewer
	// come behind it.
	minReorderNs = 10e3
	// maxMissing is how many packets are watched. With more on their way the requester goes back.
	maxMissing = 1 << 16
)

// Limits of packets that are kept until their turn.
const (
	// minKeepAhead is how far ahead of the expected PSN a packet may be and is kept: the default
	// window of a peer that sends long messages with a small path MTU. A QP with a larger window
	// has a peer with one as large.
	minKeepAhead = 1024
	// maxKeepAhead bounds that, for a QP with a window that is larger still.
	maxKeepAhead = 1 << 15
	// maxKeptBytes is the memory of kept packets of an engine. When it is used up, what comes too
	// early is dropped.
	maxKeptBytes = 64 << 20
	// keptOverhead is what a kept packet takes besides its payload, bytes.
	keptOverhead = 256
	// maxKeptFree is for how many packets an engine keeps the memory for the next.
	maxKeptFree = 1024
	// minKeptSlots is the size of the ring of a QP after its first kept packet; it doubles on
	// demand.
	minKeptSlots = 64
)

// Limits and steps of the responder.
const (
	// maxAnswers bounds the answers that a QP owes at a time. A requester may
	// have at most 255 READs and atomics outstanding (8 bits in the CM), so
	// only a peer that disregards that comes near.
	maxAnswers = 1024
	// minAnswers is the size of a QP's ring of answers after the first one; it
	// doubles on demand.
	minAnswers = 8
	// minReplays is the least number of requests remembered for duplicates.
	// FLUSH is answered even on a QP with max_dest_rd_atomic 0.
	minReplays = 4
	// maxNAKRepeats bounds how often the NAK of a gap is repeated by the timer
	// alone, at doubling intervals. A peer that still sends is told by its
	// packets.
	maxNAKRepeats = 5
	// minNearGap is how many packets ahead of the expected one a request may be and
	// get its sequence NAK at once. rdma_rxe has at most 128 packets outstanding and
	// this package 256, unless told otherwise; 4096 are 4 MiB lost in a row at 1024
	// bytes. One in 4096 of random PSNs is that near: 20,000 forged packets a second
	// provoke 5 NAKs. A request further ahead is answered when nothing else comes: see
	// responder.awaitProgress.
	minNearGap = 4096
	// maxFarGapNs is how long that takes at most, and on a QP without an ACK
	// timeout. No round trip is longer.
	maxFarGapNs = 1e9
	// readCopies bounds the answers to repeated READs: each READ is sent again so many times over
	// in all, as fast as the peer asks; then a repetition gets one packet, and none within
	// readAgainNs of the one before. Recovery by going back stays far below it: with a READ of 200
	// packets and every tenth packet lost a peer gets 10 times the READ.
	readCopies = 16
	// readAgainNs is the least time between two such packets of a queue pair: about a round trip of
	// the slowest of the networks that a requester repeats itself so often on.
	readAgainNs = 1e6
	// maxMarkable is how many CNPs may come for packets that have left already: more than a peer
	// sends for a window, at one in 4 us.
	maxMarkable = 64
	// DefaultCNPGapNs is the least time between two CNPs of one scope (DCQCN,
	// SIGCOMM 2015; ConnectX takes 4 us).
	DefaultCNPGapNs = 50e3
)

// Limits of multicast, those of rdma_rxe but for the sum over all groups.
const (
	MaxMcastGroups = 8192 // groups that QPs of an engine are attached to
	MaxMcastQPs    = 56   // QPs attached to one group
)
