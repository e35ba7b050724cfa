// Package shard runs an engine on a link.
//
// A [Shard] is one engine, one link and one lock. Everything that happens between
// link and engine is here: who receives (loop.go), when to transmit (schedule.go
// and its rules: delayedack.go, coalesce.go), when a timer may run (horizon.go), how a
// goroutine waits (wait.go, turn.go, yield.go), what becomes of memory that is
// gone (fault.go), and alarms on the clock of the link (alarm.go).
//
// The objects of package verbs sit above and call in; what the engine has to say comes
// back through [Owner]. The communication manager, which has queue pair 1, is a
// [Service].
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
package shard
