// Package shard runs an engine on a link.
//
// A [Shard] is one engine, one link and one lock. Everything that happens between
// link and engine is here: who receives (loop.go, lease.go, seat.go), when to transmit (schedule.go
// and its rules: delayedack.go, coalesce.go), when a timer may run (horizon.go), how a
// goroutine waits (wait.go, turn.go, yield.go, pace.go), how lost memory is handled
// (fault.go), alarms on the clock of the link (alarm.go), calls up to the first shard of
// a device (upcall.go), and what all of these ask of the computer (machine.go).
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
