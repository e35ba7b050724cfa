package shard

import "time"

const (
	// rxBatch bounds the packets handled under one hold of the lock.
	rxBatch = 128
	// gather bounds the packets handled before they are acknowledged while more are at hand: a
	// quarter of the window of a peer that sends full packets. It also bounds the messages, posted
	// one by one, that wait for more: half of what programs commonly keep under way.
	gather = 32
	// txBatch bounds the packets made and given to the link at a time: two datagrams of the most
	// segments that the kernel takes.
	txBatch = 256
	// coalesceBytes bounds the payload, in bytes, of messages that wait for more: a datagram of
	// large packets.
	coalesceBytes = 60 << 10
	// crowdSize is how many goroutines must be woken together before their answers wait for each
	// other, and more than how many threads. Fewer are conversations, each waiting for its own
	// answer.
	crowdSize = 3
	// PollYield is how many polls without a result a goroutine makes before it lets others run. A
	// poll takes about 1 us; letting others run takes as long if there are none.
	PollYield = 16
	// hoggedNs, in ns, is longer than any turn, and than any yield to a thread that polls for
	// packets. A yield that takes longer gave a time slice to unrelated work; there is then no
	// yield for hogPauseNs.
	hoggedNs   = 500_000
	hogPauseNs = 50_000_000
	// computesNs, in ns, is how long letting others run takes only if goroutines compute: the
	// runtime gives each 10 ms. They are then not let run for computesRest times as long as it
	// took.
	computesNs   = 8_000_000
	computesRest = 20
	// patience is how long nobody may poll, up to twice that, before the goroutine of the shard
	// takes over. The timeouts of peers are longer: 67 ms by default.
	patience = 4 * time.Millisecond
	// leasePeriod takes the place of patience while the seat is lent. A timer looks as often, at 20
	// us a look. With 4 ms one connection beside a busy neighbour had a tenth more requests, but a
	// packet for another goroutine waited for 8 ms.
	leasePeriod = time.Millisecond
	// leaseTurns is how many turns in succession lend the seat to a goroutine that waits. Mistakes
	// raise that to at most maxLeaseTurns, and maxLeaseTurns turns of a lease make up for one
	// mistake. More than leaseBehind messages that are posted behind others are no conversation.
	leaseTurns    = 16
	maxLeaseTurns = 4096
	leaseBehind   = 8
	// starvedTicks is how many ticks a lease outlasts while the thread in the seat waits for a CPU.
	// glanceLooks bounds the batches that this thread receives in one call.
	starvedTicks = 8
	glanceLooks  = 4
	// eagerPolls is how many polls that receive nothing, without a wait, turn an event-driven shard
	// into a polled one: more than an application makes that polls briefly before it waits.
	eagerPolls = 4096
	// attentionGapNs, in ns, bounds the pause between calls of a program that polls all the time;
	// posting takes less. It also bounds how long an acknowledgement waits while such a program
	// polls: UCX, which polls two queues, replies after 10 us. standbyNs and missedProofNs bound
	// how long the program must poll before it is left the work: a packet that it misses is found
	// 0.1 ms late, so one in each 5 ms costs 2 %.
	attentionGapNs = 20_000
	missedProofNs  = 5_000_000
	// replyNs, in ns, is how long threads that were woken may take to reply while an
	// acknowledgement waits: two wake-ups, on CPUs that others use.
	replyNs = 500_000
	// pollerNs, in ns, is how often a polling thread says which it is, by a system call.
	pollerNs = 50_000_000
	// standbyNs, in ns, bounds the wait of a packet that a program leaves although it seemed to
	// poll; a sleep of the kernel adds 50 us. One look takes 3 us. It is also how long a peer may
	// take from acknowledging a message until its program has seen that message in memory and has
	// sent an answer.
	standbyNs = 50_000
	// napSlackNs, in ns, is how much a nap may be longer: what threads have by default.
	napSlackNs = 50_000
	// maxSkip bounds how many chances are passed over after attempts that did not pay: to keep an
	// acknowledgement back, and to look on after one.
	maxSkip = 255
	// minLooks is the fewest looks that a receiver makes before it sleeps: a wake-up costs about as
	// much. maxLooks is the most, reached where packets come soon after the receiver has gone to
	// sleep: it doubles the rate of 64 conversations at a time.
	minLooks = 20
	maxLooks = 200
	// shareLooks is how many looks a receiver makes that lets others run before each. They may have
	// to run twice: a goroutine that is about to ask, and was put off by its own answer, comes
	// first.
	shareLooks = 8
	// vainShare is the part of the last shareOf looks that must end in a sleep before tryout tries
	// the other way. On free CPUs none does, and trying costs an eighth of the first second.
	vainShare = 1. / 16
	shareOf   = 32
	// tryoutNs, in ns, is how long each way, keeping the CPU or sharing it, is tried before the two
	// are compared; tryoutPackets is how many packets must come meanwhile, fewer than the 50 of a
	// receiver that keeps the CPU which its peer needs. The slower way is tried again after at most
	// maxTryoutWait times as long.
	tryoutNs      = 25_000_000
	tryoutPackets = 10
	maxTryoutWait = 32
)
