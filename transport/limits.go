package transport

import "time"

// Limits of the verbs objects. max_sge, max_qp_wr, max_cqe and max_qp_rd_atom have the values of
// rdma_rxe, so that a program sized for rdma_rxe fits.
const (
	// QPs of an engine, half the numbers of a slot of 6 bits, so free ones are soon found, and as
	// many CQs, SRQs and address handles.
	MaxObjects     = 1 << 17
	MaxQueueWR     = 1 << 20 // work requests of one queue
	MaxSGE         = 32      // scatter/gather elements of a work request
	MaxInline      = 1024    // bytes of inline data of a send work request
	MaxCQE         = 1 << 22 // completions that a CQ holds
	MaxRdAtomic    = 128     // READs and atomics outstanding, either role
	MaxMessage     = 1 << 31 // bytes of one message (IBTA C9-51)
	MaxRetryCnt    = 7       // a field of three bits in the CM
	MaxRNRRetry    = 7       // 7 means for ever
	MaxSilenceNs   = 1 << 50 // limit of QPAttr.SilenceNs: 13 days
	maxFlowLabel   = 1<<20 - 1
	minQPN         = 16 // 0 to 15 are reserved for special QPs, as in rdma_rxe
	maxQPNAttempts = 64 // random QPNs tried before giving up
)

// RNRRetryForever is the rnr_retry value that never gives up.
const RNRRetryForever = 7

// Defaults of Tuning and of attributes.
const (
	// DefaultMaxUnackedPackets bounds the send window of a QP, in packets; rdma_rxe uses 128. Both
	// ends stay busy only with at least two datagrams of 128 small packets, or 1 MiB of large ones:
	// on one machine half of that gave WRITEs of 1 MiB little more than half the throughput.
	// Packets of long messages count by their bytes: see longBytes.
	DefaultMaxUnackedPackets = 256
	// startWindow is the bound when a connection begins, unless MaxUnackedPackets is set: TCP sends
	// about as much at first (RFC 6928).
	startWindow = 8
	// DefaultAckReqInterval is the most packets of a message without AckReq. An acknowledgement is
	// a datagram of its own and costs as much as 15 packets of 4096 bytes that share one. rdma_rxe
	// uses 65; with 16, loopback was a third slower.
	DefaultAckReqInterval = 64
	// farShift is the logarithm of how many answers are requested per window on a long path, where
	// no round trip was shorter than farNs, and if control by delay rules the window; nearShift is
	// that of others. lossyShift is that where packets are lost lately: several answers in a row
	// may be.
	farShift   = 3
	lossyShift = 5
	nearShift  = 1
	farNs      = 5e6
	// maxStretch is how many times as large a window may become on a long path: in steps of farNs
	// of its shortest round trip, up to 8,192 packets of 1024 bytes. That is 670 Mb/s over 100 ms,
	// and what a keptMap of a packet of 1024 bytes can tell of.
	maxStretch = 8
	// maxReadPart is the most packets that a READ waits for room for: half of the largest window of
	// a short path. More would fill a queue at once.
	maxReadPart = DefaultMaxUnackedPackets << maxLong >> nearShift
	// growShift is the logarithm of the part of a window by which it grows at most while there is a
	// queue.
	growShift = 4
	// manyEmpty is how many round trips in a row without a queue show that a path holds more.
	manyEmpty = 3
	// maxTuningTime bounds the times of Tuning.
	maxTuningTime = time.Minute
	// DefaultLossProbeNs is the least time without an answer before the last packet is sent again.
	// A busy machine may delay a process that long. The default ACK timeout is 67 ms.
	DefaultLossProbeNs = 1e6
	// DefaultSeqNAKRearmNs is how long a responder waits before it repeats the sequence NAK of a
	// gap. rdma_rxe never repeats one, and relies on the requester's timeout.
	DefaultSeqNAKRearmNs = 2e6
	// DefaultFatalLingerNs is how long duplicates of a failed request, and of earlier ones, get its
	// NAK again.
	DefaultFatalLingerNs = 5e9
	// askAgainNs bounds the time between two retries for QPAttr.SilenceNs, unless the ACK timeout
	// is longer. It limits how late a returning peer is noticed.
	askAgainNs = 1e9
	// DefaultHopLimit replaces a hop limit of 0.
	DefaultHopLimit = 64
)

// Limits and steps of the send queue.
const (
	// maxFlight is the most single packets in flight to one address, from all QPs together. A peer
	// that answers each with a datagram needs 10 us for one, so the last answer comes well before
	// the usual timeout.
	maxFlight = 1024
	// runsCount is how many packets of runs count as one single packet.
	runsCount = 4
	// fewPackets is the number of single packets in flight to one address below which another is
	// sent at once: so few belong to conversations that each wait for an answer.
	fewPackets = 4
	// leastFlight divides a flight's bound to give the least that loss leaves of it.
	leastFlight = 16
	// headerRoom is what the headers of a packet take in a receive buffer, in bytes: Ethernet, IP,
	// UDP, RoCE, ICRC.
	headerRoom = 96
	// readQuantum is the most packets of a READ's response that a QP waits for room for.
	readQuantum = 32
	// maxReadPackets exceeds the packets of any READ.
	maxReadPackets = 1 << 30
	// txQuantum is how many packets a QP may send per turn: four segmented datagrams of 15 packets
	// at 4096 bytes, or one of 60 at 1024 bytes.
	txQuantum = 60
	// longBytes is the least length of a message whose packets count by their bytes. maxLong limits
	// how far such messages enlarge the window, as a power of 2: to 1024 packets by default, at a
	// path MTU of 1024 or less. With 256 packets both ends waited for each other a quarter of the
	// time.
	longBytes = 4096
	maxLong   = 2
	// maxApart is the most packets of a WRITE or READ that leaves as messages of one packet each.
	// Longer messages fill datagrams without that.
	maxApart = 64
	// apartDepth is how many READs split that way the connection's depth must at least allow.
	apartDepth = 8
	// minSendSlots is the size of a send queue's ring after its first request; it doubles on
	// demand. A small ring spares the cache when thousands of QPs have a request now and then.
	minSendSlots = 4
	// minRecvSlots is the same for a receive queue, and minCQSlots for the ring of a completion
	// queue. That ring doubles when it is full, and after busyCQ times round; most never get there.
	minRecvSlots = 4
	minCQSlots   = 16
	busyCQ       = 64
)

// Steps of loss recovery.
const (
	// minWindow is the smallest send window that loss leaves, in packets.
	minWindow = 4
	// spreadShift is the logarithm of the parts in which a window leaves again after going back.
	spreadShift = 3
	// minEpisodeNs is how long after going back a sequence NAK without progress is attributed to
	// the same loss, if no round trip is known.
	minEpisodeNs = 1e6
	// maxTimeouts is how many times as long as its attribute says an ACK timeout may be (IBTA
	// 9.7.6.1.3).
	maxTimeouts = 4
	// minRepeatNs is how long after requesting the rest of a READ a gap in its responses counts as
	// the old one. Packets overtake each other, and come twice, within less.
	minRepeatNs = 100e3
)

// Limits of loss probes.
const (
	// maxProbes is how many probes precede the ACK timeout.
	maxProbes = 2
	// lossyProbes is how many more do where packets are lost, perhaps a few in a row.
	lossyProbes = 2
	// probeReads is how many packets a probe of a READ has where packets are lost.
	probeReads = 8
	// probeAnew is how many ACK timeouts in a row are followed by no probes, if nothing was lost
	// lately. Others are: losses may come in bursts, which end with the packets that they take.
	probeAnew = 2
	// maxProbing is how many QPs of an engine may have an unanswered probe.
	maxProbing = 32
	// probeRetry is how many waits pass before a QP that exceeded maxProbing tries again.
	probeRetry = 8
	// maxProbeBackoff bounds how often the wait doubles.
	maxProbeBackoff = 16
)

// Limits of requests that need no answer soon.
const (
	// maxUnaskedNs bounds how long packets leave without one that requests an answer. An eighth of
	// the ACK timeout does, too, which runs meanwhile.
	maxUnaskedNs = 8e6
	// maxEager is the most messages in a row that request an answer after probes had to.
	maxEager = 255
	// fewSpared is how many spared answers a probe is too dear for: it costs a packet, its answer,
	// and a wake-up for the timer.
	fewSpared = 4
)

// Limits and steps of selective repeat.
const (
	// streamWindow is how many packets a connection that carries a stream has had in flight.
	streamWindow = 64
	// maxRefusals is how many offers of selective repeat may have no answer where a try without has
	// one, until no more are made.
	maxRefusals = 3
	// maxReorder is how many packets may overtake another before that one counts as lost.
	maxReorder = 3
	// maxSpread limits how far spurious repeats raise that number, and spreadLosses is how many
	// losses reset it to maxReorder.
	maxSpread    = 256
	spreadLosses = 256
	// maxDoubt limits how often the time doubles after which a repeated response counts as lost.
	maxDoubt = 2
	// heavyLoss is a divisor: a path that loses more than this part of the packets in flight has no
	// room for them.
	heavyLoss = 8
	// fullLoss is such a divisor while round trips are long. Losses at random are fewer (BBR,
	// version 3, has the same).
	fullLoss = 50
	// calmTimes is how many times as large a part is lost while round trips are long as while they
	// are short, if the queue is full.
	calmTimes = 2
	// lossSample is how many packets show what part of them is lost, and calmSample how many while
	// round trips are short, where a few may be losses that came late. calmPackets is after how
	// many packets half of what was lost while round trips were short is forgotten, since paths
	// change.
	lossSample  = 512
	calmSample  = 1024
	calmPackets = 8192
	// lowSamples is how many round trips in a row do not all wait for processors.
	lowSamples = 4
	// minReorderNs is the least time to wait for a packet that may have been overtaken, if fewer
	// than that come behind it.
	minReorderNs = 10e3
	// maxMissing is how many packets are watched. With more in flight the requester goes back.
	maxMissing = 1 << 16
)

// Limits of packets that are kept until their turn.
const (
	// minKeepAhead is how far ahead of the expected PSN a packet may be and still be kept: two
	// windows of a peer that sends long messages with a small path MTU, which goes on while one
	// packet is sent again. A QP with a larger window expects one as large of its peer, and
	// responder.keepsAhead says when others are kept further ahead.
	minKeepAhead = 2048
	// maxKeepAhead bounds that for QPs with larger windows.
	maxKeepAhead = 1 << 15
	// maxKeptBytes bounds the memory of an engine's kept packets. Once it is used up, early packets
	// are dropped.
	maxKeptBytes = 64 << 20
	// keptOverhead is what a kept packet takes besides its payload, in bytes.
	keptOverhead = 256
	// maxKeptFree is how many freed packets an engine keeps for reuse.
	maxKeptFree = 1024
	// minKeptSlots is the size of a QP's ring after its first kept packet; it doubles on demand.
	minKeptSlots = 64
)

// Limits and steps of the responder.
const (
	// maxAnswers bounds the answers that a QP owes at a time. A requester may have at most 255
	// READs and atomics outstanding (8 bits in the CM), so only a peer that ignores the limit comes
	// near.
	maxAnswers = 1024
	// minAnswers is the size of a QP's ring of answers after the first; it doubles on demand.
	minAnswers = 8
	// minReplays is the least number of requests remembered for duplicates. FLUSH is answered even
	// on a QP with max_dest_rd_atomic 0.
	minReplays = 4
	// maxNAKRepeats bounds how often the timer alone repeats the NAK of a gap, at doubling
	// intervals. If the peer still sends, its packets trigger further NAKs.
	maxNAKRepeats = 5
	// minNearGap is how far ahead of the expected PSN a request may be to get its sequence NAK at
	// once. By default rdma_rxe has at most 128 packets outstanding and this package 256; 4096
	// packets of 1024 bytes are 4 MiB lost in a row. One in 4096 random PSNs is that near, so
	// 20,000 forged packets a second provoke 5 NAKs. A request further ahead is answered only when
	// nothing else comes: see responder.awaitProgress.
	minNearGap = 4096
	// maxFarGapNs bounds that wait, and is the wait on a QP without an ACK timeout. No round trip
	// is longer.
	maxFarGapNs = 1e9
	// readCopies bounds the answers to repeated READs. The responder sends each READ again this
	// many times in all, as fast as the peer asks. After that a repetition gets one packet, at most
	// one every readAgainNs. Recovery by going back stays far below: for a READ of 200 packets with
	// every tenth lost, the peer gets the READ 10 times.
	readCopies = 16
	// readAgainNs is the least time between two such packets of a queue pair: about a round trip of
	// the slowest networks on which a requester repeats that often.
	readAgainNs = 1e6
	// maxMarkable is how many departed packets may still draw a CNP each. A peer sends fewer for a
	// window, even at one in 4 us.
	maxMarkable = 64
	// DefaultCNPGapNs is the least time between two CNPs of one scope (DCQCN, SIGCOMM 2015;
	// ConnectX uses 4 us).
	DefaultCNPGapNs = 50e3
)

// Limits of multicast, as in rdma_rxe except for the sum over all groups.
const (
	MaxMcastGroups = 8192 // groups that QPs of an engine are attached to
	MaxMcastQPs    = 56   // QPs attached to one group
)
