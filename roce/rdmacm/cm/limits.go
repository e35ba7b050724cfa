package cm

import "github.com/goroce/goroce/ib"

// Limits bounds what peers and applications can make an [Agent] hold. A zero
// field means its default.
type Limits struct {
	Conns    int // connections, whatever their state, without those in TIMEWAIT
	HalfOpen int // connections that were accepted and whose peer has not shown that it knows
	// HalfOpenBytes bounds the memory that the owner holds for half-open
	// connections, of which [Accept] tells. Beyond both bounds requests wait.
	HalfOpenBytes int
	PerPeer       int // requests not answered and half-open connections of one address; at most half of HalfOpen
	Timewait      int // records of connections that are over; the oldest go first
	Backlog       int // most that a listener can ask for
	TxBacklog     int // datagrams to send that PollTransmit has not taken
}

// DefaultLimits are the defaults of [Limits].
var DefaultLimits = Limits{
	Conns:    1 << 17,
	HalfOpen: 1 << 10, HalfOpenBytes: 64 << 20,
	PerPeer:   1 << 9,
	Timewait:  1 << 15,
	Backlog:   1 << 10, // the cap of Linux
	TxBacklog: 1 << 13,
}

// FloodBytes bounds, on 64-bit machines, what an Agent itself holds with
// DefaultLimits and one listener when it is flooded by peers that never answer:
// records of connections in TIMEWAIT, above all. What the owner holds for
// half-open connections comes on top: Limits.HalfOpenBytes.
const FloodBytes = 32 << 20

// Times of the protocol; fields of [Config] override those that have one.
const (
	// DefaultRetryNs is how long an answer is waited for before a message is
	// repeated for the first time. Linux waits about 4 s; to repeat one sooner
	// harms nobody, since duplicates are known as such. The wait doubles from try to
	// try up to the 4.3 s that a REQ grants the peer: a hundred connections at a time
	// would else keep a slow peer busy with duplicates.
	DefaultRetryNs = 500e6
	// DefaultTries is how often a message is sent in all: for half a minute. Linux
	// tries for more than a minute.
	DefaultTries = 10
	// DefaultTimewaitNs is the least time in TIMEWAIT: while it lasts a delayed
	// duplicate cannot be taken for something new.
	DefaultTimewaitNs = 1e9
	// DefaultServiceTimeout is what an MRA asks the peer to wait when its
	// request is still with the application: 2.1 s. Linux asks for 69 s; but if
	// the answer is lost, that is how long the peer takes to find out.
	DefaultServiceTimeout ib.TimeoutCode = 19
	// maxServiceTimeout is the longest wait that an MRA of a peer gets: 137 s. All
	// MRAs for one REP together get no more, nor, without Config.ReqHoldNs, those for one REQ.
	maxServiceTimeout ib.TimeoutCode = 25
	// maxPeerAnswerNs bounds the time between two repetitions of a REP, whatever
	// the peer says: Linux says 4.3 s.
	maxPeerAnswerNs = 5e9
	// quietTries is how often a REP is sent to a peer that was never heard of.
	quietTries = 4
	// lateNs is how long a half-open connection counts in SetMaxUntaken: several
	// round trips of any network that RDMA is used on.
	lateNs = 50e6
	// minQueueNs and maxQueueNs bound how long a request waits for the owner to take
	// it when its sender does not repeat it: in between, four times the time after which
	// the sender said it would.
	minQueueNs = 30e9
	maxQueueNs = 140e9
	// maxTimewaitNs bounds what the ACK timeout of a peer makes of TIMEWAIT.
	maxTimewaitNs = 60e9
)

// What a REQ of ours says about the CM itself.
const (
	// reqRemoteTimeout is the time we say the peer has to answer: 4.3 s, as Linux does.
	reqRemoteTimeout ib.TimeoutCode = 20
	// reqLocalTimeout is the time in which we promise to answer: 0.5 s. The
	// peer repeats its REP at this interval.
	reqLocalTimeout ib.TimeoutCode = 17
	// reqMaxRetries is how often the peer should repeat its REP, as Linux does.
	reqMaxRetries = 15
)

const (
	maxIDAttempts = 64 // random communication IDs tried before giving up
	// maxRdAtomic bounds the READs and atomics that a REP may announce to have in
	// flight towards us: the responder cannot keep more. In a REQ any number is
	// good, because the REP answers with what we do keep.
	maxRdAtomic = 128
)
