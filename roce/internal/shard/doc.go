// Package shard runs an engine on a link.
//
// A [Shard] is one engine, one link and one lock. Everything that happens between link and engine
// is here. Begin with loop.go: its progress is the one place that receives, and sends what answers.
// The other files answer its questions:
//
//   - Send now, or wait for what? schedule.go, with delayedack.go and coalesce.go; transmit.go sends.
//   - Who receives? keeper.go: the goroutine of the shard, or a caller that polls. lease.go, seat.go:
//     a goroutine that waits; sleeper.go: a thread of a program in another language that does.
//     foreign.go, linger.go: such a program that polls memory.
//   - Look again, or sleep? pace.go, demand.go, tryout.go; slices.go asks for short time slices. Let
//     others run first? yield.go. How does a caller wait? wait.go, signal.go; in a simulation turn.go.
//   - May this timer run? horizon.go. alarm.go has timers for the packages above.
//   - What if memory is gone? fault.go. What must be called without the lock? upcall.go.
//
// limits.go has the numbers and what needs each; backoff.go tries rarely what does not pay;
// machine.go is what all of these ask of the computer.
//
// The objects of package verbs sit above and call in; the engine reports back through [Owner]. The
// communication manager, which has queue pair 1, is a [Service].
//
// # The order of things
//
// After any input or command: transmit, hand out events, note the next timer. That is the
// contract of the engine, and [Shard.Flush] keeps it.
//
// # Locks
//
// The lock of the receiving side comes before the lock of the engine. A service and the owner
// are called with the lock of the engine held, and do not block.
//
// A device has several shards. Their locks are taken in the order of [Shard.Index]: nobody asks for
// one while holding a later one. So the communication manager, on the first shard, reaches the
// queue pairs of all others; their reports to it wait until their lock is given back
// ([Shard.Upcall]). The lock of any receiving side comes before the locks of all engines. Each link
// has a clock of its own: times of one shard mean nothing to another.
package shard
