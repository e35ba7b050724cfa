// Package grammar speaks RoCE v2 as a peer does, and nearly so: it is one generator of packets for
// fuzzing, for long runs of the engine, and for runs against goroce over UDP and against the
// kernel's rdma_rxe.
//
// A [Speaker] has a number of connections. What it says next follows from choices (bytes of a
// fuzzer, or a seed), from what it has said, and from what the target answered: requests of all
// kinds in legal sequences, answers to what the target asked for, repetitions, losses and
// overtaking, and near-misses: a legal packet with one thing wrong with it. Messages of RDMA-CM are
// said and heard in the same way.
//
// [Run] has a target that packet drills are played on listen to a Speaker. The tests have one
// engine do so, with an application that posts, polls and lets time pass as the same choices say,
// and check what must hold whatever is said: no panic, no byte outside of registered memory,
// nothing malformed sent, bounded work for a packet. They do the same with a communication manager
// alone.
//
// Limits: one goroutine uses a Speaker. Packets have no ICRC: their sender makes it.
package grammar
