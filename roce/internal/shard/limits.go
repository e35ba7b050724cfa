package shard

import "time"

const (
	// rxBatch is how many packets are handled under one hold of the lock.
	rxBatch = 128
	// ackGather is how many packets are handled at most before they are
	// acknowledged while more are at hand: a quarter of the window of a peer that
	// sends full packets.
	ackGather = 32
	// txBatch is how many packets are made and given to the link at a time: two
	// datagrams of the most segments that the kernel takes.
	txBatch = 256
	// coalesceMessages and coalesceBytes are how many messages, posted one by one, and how
	// much payload are sent at once, without waiting for more: half of what
	// programs commonly keep under way, and a datagram of large packets.
	coalesceMessages = 32
	coalesceBytes    = 60 << 10
	// crowdSize is how many goroutines have to be woken together for their answers to wait for each
	// other: fewer are conversations, of which each waits for its answer.
	crowdSize = 3
	// PollYield is how many polls without result a goroutine makes before it lets
	// others run. One takes about 1 us; letting others run, if there are none, as long.
	PollYield = 16
	// hoggedNs: a yield that takes longer means that the thread which ran was not polling for
	// packets; there is no yield then for hogPauseNs.
	hoggedNs   = 500_000
	hogPauseNs = 50_000_000
	// computesNs is how long nobody is away for but goroutines that compute: the runtime gives each
	// 10 ms. Nobody lets them run again for computesRest times as long.
	computesNs   = 8_000_000
	computesRest = 20
	// patience is how long nobody may poll, up to twice that, before the goroutine of the
	// shard takes over. Timeouts of peers are longer: 67 ms by default.
	patience = 4 * time.Millisecond
	// leaseTurns is how many turns in succession it takes until a goroutine that waits has the
	// seat; after mistakes up to maxLeaseTurns, and as many make up for one mistake. A batch of
	// more than turnPackets, or as many messages posted behind others, is no turn of a
	// conversation.
	leaseTurns    = 16
	maxLeaseTurns = 4096
	turnPackets   = 8
	// leasePeriod is how long nobody may receive, up to twice that, while the seat is lent.
	leasePeriod = time.Millisecond
	// eagerPolls is how many polls in vain, without a wait, make an event-driven shard one
	// that is polled: more than an application makes that polls for a little before it waits.
	eagerPolls = 4096
	// attentionGapNs is the longest pause between calls of a program that polls all the time:
	// posting takes less. minProofNs and missedProofNs bound how long it has to do so before it is
	// left the work: a packet that it misses is found 0.1 ms late, and so one for each 5 ms costs 2
	// %. starvedProofNs is for one that has no CPU: who sleeps is run soon when a packet comes.
	attentionGapNs = 20_000
	minProofNs     = 50_000
	missedProofNs  = 5_000_000
	starvedProofNs = 200_000_000
	// usageNs is how often a thread that polls looks at how much of a CPU it gets: a system call,
	// 0.5 us. starvedNs is for how long it counts as starved after it has got too little. It gets a
	// turn of some milliseconds in each time in which others get theirs.
	usageNs   = 10_000_000
	starvedNs = 1_000_000_000
	// standbyNs is how long a packet waits that a program does not take which looked as if it
	// polled, and a message that was posted behind others; a sleep of the kernel takes 50 us more.
	// One look takes 3 us.
	standbyNs = 50_000
	// holdGapNs is what two messages may be apart of which the second waits; a program that posts
	// one by one takes less than 1 us. burstBegins are how many have to follow each other for the
	// first of the next ones to wait, too. Up to fewHeld that nobody but the sender has sent have
	// waited in vain, and maxHoldSkip bounds how many leave at once after that. The sender looks
	// senderLooks times in vain before it sleeps.
	holdGapNs   = 5_000
	burstBegins = 16
	maxHoldSkip = 255
	senderLooks = 20
	fewHeld     = 2
	// lingerNs is how long a peer may take, after it has acknowledged a message, until its program
	// has seen that in its memory and has sent an answer. maxLingerSkip bounds how many
	// acknowledgements are not followed by a wait after some were in vain.
	lingerNs      = 50_000
	maxLingerSkip = 255
	// maxAckSkip bounds how many batches of packets are acknowledged at once after
	// acknowledgements were kept back in vain.
	maxAckSkip = 255
	// minLooks is how often who receives looks before it sleeps: a wake-up costs about as much.
	// maxLooks is how often it does so where packets come soon after it has gone to sleep: 64
	// conversations at a time have twice the rate by it.
	minLooks = 20
	maxLooks = 200
	// preemptedNs is longer than any turn: a time slice that somebody else had.
	preemptedNs = 500_000
	// vainShare is which part of the last shareOf looks has to end in a sleep for tryout to try. On
	// free CPUs none does, and to try costs an eighth of the first second.
	vainShare = 1. / 16
	shareOf   = 32
	// tryoutNs is how long looking, or sleeping at once, is tried before they are compared, and
	// tryoutPackets how much has to come meanwhile. After up to maxTryoutWait times as long the one
	// that was slower is tried again.
	tryoutNs      = 25_000_000
	tryoutPackets = 50
	maxTryoutWait = 32
)
