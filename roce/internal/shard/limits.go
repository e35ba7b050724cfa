package shard

import "time"

const (
	// rxBatch is how many packets are handled under one hold of the lock.
	rxBatch = 128
	// gather is how many packets are handled at most before they are acknowledged while more are
	// at hand: a quarter of the window of a peer that sends full packets. It is also how many
	// messages, posted one by one, are sent at once, without waiting for more: half of what
	// programs commonly keep under way.
	gather = 32
	// txBatch is how many packets are made and given to the link at a time: two datagrams of the
	// most segments that the kernel takes.
	txBatch = 256
	// coalesceBytes is how much payload of them does not wait: a datagram of large packets.
	coalesceBytes = 60 << 10
	// crowdSize is how many goroutines have to be woken together for their answers to wait for
	// each other: fewer are conversations, of which each waits for its answer. Fewer messages that
	// nobody but the sender has sent have waited in vain.
	crowdSize = 3
	// PollYield is how many polls without result a goroutine makes before it lets others run. One
	// takes about 1 us; letting others run, if there are none, as long.
	PollYield = 16
	// hoggedNs is longer than any turn, and than any yield to a thread that polls for packets: a
	// time slice that somebody else had. There is no yield then for hogPauseNs.
	hoggedNs   = 500_000
	hogPauseNs = 50_000_000
	// computesNs is how long nobody is away for but goroutines that compute: the runtime gives
	// each 10 ms. Nobody lets them run again for computesRest times as long.
	computesNs   = 8_000_000
	computesRest = 20
	// patience is how long nobody may poll, up to twice that, before the goroutine of the shard
	// takes over. Timeouts of peers are longer: 67 ms by default.
	patience = 4 * time.Millisecond
	// leasePeriod is the same while the seat is lent. A timer looks as often, which takes 20 us
	// each time; where it was 4 ms, one connection beside a busy neighbour had a tenth more
	// requests, but a packet for another goroutine waited for 8 ms.
	leasePeriod = time.Millisecond
	// leaseTurns is how many turns in succession it takes until a goroutine that waits has the
	// seat; after mistakes up to maxLeaseTurns, and as many make up for one mistake. A batch of
	// more than turnPackets, or as many messages posted behind others, is no turn of a
	// conversation. So many messages have to follow each other for the first of the next ones to
	// wait.
	leaseTurns    = 16
	maxLeaseTurns = 4096
	turnPackets   = 8
	// eagerPolls is how many polls in vain, without a wait, make an event-driven shard one that is
	// polled: more than an application makes that polls for a little before it waits.
	eagerPolls = 4096
	// attentionGapNs is the longest pause between calls of a program that polls all the time:
	// posting takes less. standbyNs and missedProofNs bound how long it has to do so before it is
	// left the work: a packet that it misses is found 0.1 ms late, and so one for each 5 ms costs
	// 2 %. starvedProofNs is for one that has no CPU: who sleeps is run soon when a packet comes.
	attentionGapNs = 20_000
	missedProofNs  = 5_000_000
	starvedProofNs = 200_000_000
	// usageNs is how often a thread that polls looks at how much of a CPU it gets: a system call,
	// 0.5 us. starvedNs is for how long it counts as starved after it has got too little. It gets
	// a turn of some milliseconds in each time in which others get theirs.
	usageNs   = 10_000_000
	starvedNs = 1_000_000_000
	// standbyNs is how long a packet waits that a program does not take which looked as if it
	// polled, and a message that was posted behind others; a sleep of the kernel takes 50 us more.
	// One look takes 3 us. It is also how long a peer may take, after it has acknowledged a
	// message, until its program has seen that in its memory and has sent an answer.
	standbyNs = 50_000
	// holdGapNs is what two messages may be apart of which the second waits; a program that posts
	// one by one takes less than 1 us.
	holdGapNs = 5_000
	// maxSkip bounds how many of what was tried in vain are left out before it is tried again: to
	// keep an acknowledgement back, to have a message wait, to look on after an acknowledgement.
	maxSkip = 255
	// minLooks is how often who receives looks before it sleeps, and who sends what waits for
	// others: a wake-up costs about as much. maxLooks is how often it does so where packets come
	// soon after it has gone to sleep: 64 conversations at a time have twice the rate by it.
	minLooks = 20
	maxLooks = 200
	// shareLooks is how often it does where it lets others run before each look. They may have to
	// run twice: one that is about to ask, and was put off by its own answer, comes first.
	shareLooks = 8
	// vainShare is which part of the last shareOf looks has to end in a sleep for tryout to try.
	// On free CPUs none does, and to try costs an eighth of the first second.
	vainShare = 1. / 16
	shareOf   = 32
	// tryoutNs is how long to keep the CPU, or to share it, is tried before they are compared, and
	// tryoutPackets how much has to come meanwhile. After up to maxTryoutWait times as long the
	// one that was slower is tried again.
	tryoutNs      = 25_000_000
	tryoutPackets = 50
	maxTryoutWait = 32
)
