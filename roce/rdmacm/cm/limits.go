package cm

import "github.com/goroce/goroce/ib"

// Limits bounds what peers and applications can make an [Agent] hold. A zero field means its
// default.
type Limits struct {
	Conns    int // connections in any state but TIMEWAIT
	HalfOpen int // accepted connections whose peer has not shown that it knows
	// HalfOpenBytes bounds the memory that the owner holds for half-open connections, as stated in
	// [Accept]. Beyond either bound requests wait.
	HalfOpenBytes int
	PerPeer       int // unanswered requests and half-open connections of one address; at most half of HalfOpen
	Timewait      int // records of connections that are over; the oldest go first
	Backlog       int // the most that a listener can ask for
	TxBacklog     int // datagrams to send that PollTransmit has not returned
}

// DefaultLimits are the defaults of [Limits].
var DefaultLimits = Limits{
	Conns:    1 << 17,
	HalfOpen: 1 << 10, HalfOpenBytes: 64 << 20,
	PerPeer:   1 << 9,
	Timewait:  1 << 15,
	Backlog:   1 << 10, // Linux's limit
	TxBacklog: 1 << 13,
}

// FloodBytes bounds, on 64-bit machines, what an Agent itself holds with DefaultLimits and one
// listener while peers that never answer flood it: mostly records of connections in TIMEWAIT. The
// owner's memory for half-open connections comes on top: Limits.HalfOpenBytes.
const FloodBytes = 32 << 20

// Times of the protocol; fields of [Config] override those that have one.
const (
	// DefaultRetryNs is how long to wait for an answer before a message is first repeated. Linux
	// waits about 4 s; repeating earlier does no harm, because duplicates are recognised. The wait
	// doubles each time up to the 4.3 s that a REQ grants the peer: otherwise a hundred connections
	// at a time would keep a slow peer busy with duplicates.
	DefaultRetryNs = 500e6
	// DefaultTries is how often a message is sent in all: for half a minute. Linux tries for more
	// than a minute.
	DefaultTries = 10
	// DefaultTimewaitNs is the minimum time in TIMEWAIT, during which a delayed duplicate cannot be
	// taken for a new message.
	DefaultTimewaitNs = 1e9
	// DefaultServiceTimeout is how long an MRA asks the peer to wait while its request is with the
	// application: 2.1 s. Linux asks for 69 s; but if the answer is lost, the peer takes that long
	// to find out.
	DefaultServiceTimeout ib.TimeoutCode = 19
	// maxServiceTimeout is the longest wait granted to a peer's MRA: 137 s. All MRAs for one REP
	// together get no more; nor do, without Config.ReqHoldNs, those for one REQ.
	maxServiceTimeout ib.TimeoutCode = 25
	// maxPeerAnswerNs bounds the time between two repetitions of a REP, whatever the peer says:
	// Linux says 4.3 s.
	maxPeerAnswerNs = 5e9
	// quietTries is how often a REP is sent to a peer that was never heard of.
	quietTries = 4
	// lateNs is how long a half-open connection counts in SetMaxUntaken: several round trips of any
	// network that RDMA is used on.
	lateNs = 50e6
	// minQueueNs and maxQueueNs bound how long a request waits for the owner if its sender does not
	// repeat it. In between it is four times the sender's announced repetition interval.
	minQueueNs = 30e9
	maxQueueNs = 140e9
	// maxTimewaitNs bounds the effect of a peer's ACK timeout on TIMEWAIT.
	maxTimewaitNs = 60e9
)

// What our REQ says about the CM itself.
const (
	// reqRemoteTimeout is the time that the peer has to answer: 4.3 s, as with Linux.
	reqRemoteTimeout ib.TimeoutCode = 20
	// reqLocalTimeout is the time in which we promise to answer: 0.5 s. The peer repeats its REP at
	// this interval.
	reqLocalTimeout ib.TimeoutCode = 17
	// reqMaxRetries is how often the peer should repeat its REP, as Linux does.
	reqMaxRetries = 15
)

const (
	maxIDAttempts = 64 // random communication IDs tried before giving up
	// maxRdAtomic bounds the READs and atomics that a REP may announce to have in flight towards
	// us: the responder can keep no more. A REQ may have any number, because the REP answers with
	// what we do keep.
	maxRdAtomic = 128
)
