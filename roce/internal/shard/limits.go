package shard

import "time"

// Each number says which rows of "What each rule is for" in docs/bench/scheduler need it.
const (
	// rxBatch bounds the packets handled under one hold of the lock. Twice as many are made and
	// given to the link at a time: two datagrams of the most segments that the kernel takes.
	// Rows: none, a limit.
	rxBatch = 128
	// gather bounds the packets handled before they are acknowledged while more are at hand: a
	// quarter of the window of a peer that sends full packets. It also bounds the messages, posted
	// one by one, that wait for more: half of what programs commonly keep under way.
	// Rows: gather, coalescer.
	gather = 32
	// coalesceBytes bounds the payload, in bytes, of messages that wait for more: a datagram of
	// large packets.
	// Rows: coalescer.
	coalesceBytes = 60 << 10
	// crowdSize is how many goroutines must be woken together before their answers wait for each
	// other, and more than how many threads. Fewer are conversations, each waiting for its own
	// answer.
	// Rows: coalescer.
	crowdSize = 3
	// PollYield is how many polls without a result a goroutine makes before it lets others run. A
	// poll takes about 1 us; letting others run takes as long if there are none.
	// Rows: none, write_lat and send_lat are 1 to 8 % slower without.
	PollYield = 16
	// hoggedNs, in ns, is longer than threads need that wake each other on CPUs which others use:
	// for a turn, a yield to a thread that polls for packets, or the two wake-ups before a thread
	// replies. A yield that takes longer gave a time slice to unrelated work. An acknowledgement
	// waits no longer for a reply.
	// Rows: staleNs, delayedAck.
	hoggedNs = 500_000
	// staleNs, in ns, is how long the shard believes what it has learned about threads: that
	// unrelated work has the CPU, so that it does not yield, and which thread polls, which it has
	// to ask the kernel.
	// Rows: staleNs, putOff.
	staleNs = 50_000_000
	// sliceNs, in ns, is nearly a time slice. The runtime gives each goroutine that computes 10 ms,
	// so letting others run takes that long only if some do. They are then not let run for
	// computesRest times as long as it took. A lease outlasts as much while the thread in the seat
	// waits for a CPU.
	// Rows: computing, putOff.
	sliceNs      = 8_000_000
	computesRest = 20
	// patience is how long nobody may poll, up to twice that, before the goroutine of the shard
	// takes over. The timeouts of peers are longer: 67 ms by default.
	// Rows: standby.
	patience = 4 * time.Millisecond
	// leasePeriod takes the place of patience while the seat is lent. A timer looks as often, at 20
	// us a look. With 4 ms one connection beside a busy neighbour had a tenth more requests, but a
	// packet for another goroutine waited for 8 ms. leaseTurns is how many turns in succession lend
	// the seat to a goroutine that waits. More than leaseBehind messages that are posted behind
	// others are no conversation. glanceLooks bounds the batches that a thread in the seat receives
	// in one call.
	// Rows: lease, lease.posted.
	leasePeriod = time.Millisecond
	leaseTurns  = 16
	leaseBehind = 8
	glanceLooks = 4
	// maxBackOff is how many times more rarely, at most, the shard tries what did not pay: a lease,
	// to keep an acknowledgement back, to look on after one.
	// Rows: lease, delayedAck, linger.
	maxBackOff = 256
	// eagerPolls is how many polls that receive nothing, without a wait, turn an event-driven shard
	// into a polled one: more than an application makes that polls briefly before it waits.
	// Rows: none, not measured without.
	eagerPolls = 4096
	// attentionGapNs, in ns, bounds the pause between calls of a program that polls all the time;
	// posting takes less. It also bounds how long an acknowledgement waits while such a program
	// polls: UCX, which polls two queues, replies after 10 us. standbyNs and missedProofNs bound
	// how long the program must poll before it is left the work: a packet that it misses is found
	// 0.1 ms late, so one in each 5 ms costs 2 %.
	// Rows: attention.proof, activity, delayedAck.
	attentionGapNs = 20_000
	missedProofNs  = 5_000_000
	// standbyNs, in ns, bounds the wait of a packet that a program leaves although it seemed to
	// poll; a sleep of the kernel may be longer by as much, as it is by default. One look takes 3
	// us. It is also how long a peer may take from acknowledging a message until its program has
	// seen that message in memory and has sent an answer.
	// Rows: standby, attention.proof, linger.
	standbyNs = 50_000
	// minLooks is the fewest looks that a receiver makes before it sleeps: a wake-up costs about as
	// much. maxLooks is the most, reached where packets come soon after the receiver has gone to
	// sleep: it doubles the rate of 64 conversations at a time.
	// Rows: pace.most.
	minLooks = 20
	maxLooks = 200
	// shareLooks is how many looks a receiver makes that lets others run before each. They may have
	// to run twice: a goroutine that is about to ask, and was put off by its own answer, comes
	// first. tryout tries the other way if two of about the last shareOf looks ended in a sleep: on
	// free CPUs none does, and trying costs an eighth of the first second.
	// Rows: tryout.
	shareLooks = 8
	shareOf    = 32
	// tryoutNs, in ns, is how long each way, keeping the CPU or sharing it, is tried before the two
	// are compared; tryoutPackets is how many packets must come meanwhile, fewer than the 50 of a
	// receiver that keeps the CPU which its peer needs. The slower way is tried again after at most
	// maxTryoutWait times as long. A process that stands still for tryoutNs twice in that time has
	// a quota.
	// Rows: tryout, pauses.
	tryoutNs      = 25_000_000
	tryoutPackets = 10
	maxTryoutWait = 32
)
