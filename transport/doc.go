// Package transport is the protocol engine: queue pairs, completion queues,
// shared receive queues, the RC, UC and UD state machines, retry and RNR
// timers. It is sans-IO: it never opens a socket, reads a clock, starts a
// goroutine, logs or draws from a global source of randomness.
//
// # Contract
//
// One [Engine] is one shard: it owns its QPs, their timers and the table of
// registered memory. The shell (package roce) calls it and is answered with
// data:
//
//   - input: [Engine.HandlePacket], [Engine.HandleTimeout];
//   - commands: [QP.PostSend], [QP.PostRecv], [QP.Modify], and the Create and
//     Destroy methods of the verbs objects;
//   - output: [Engine.PollTransmit] fills packet descriptors that the link
//     owns, [Engine.NextTimeout] says when HandleTimeout is due,
//     [Engine.PollEvent] returns notifications and asynchronous events,
//     [CQ.Poll] returns completions;
//   - getters: [QP.Query], [Engine.Counters].
//
// The order in which the shell polls after any input or command: PollTransmit
// until it returns 0, then PollEvent until it is empty, then NextTimeout.
//
// # Time
//
// Time is an int64 of nanoseconds on any monotonic scale, passed in by the
// caller; the shell reads its clock once a batch. Zero is not special.
//
// # Concurrency
//
// An Engine and everything created from it is used by one goroutine at a
// time; the shell holds a lock. The exceptions are [CQ.Poll], [CQ.Arm], [CQ.Len]
// and [CQ.Overflowed], which one consumer may call concurrently with the engine.
//
// # Memory
//
// The data path does not allocate: packet descriptors, work queue slots and
// completion rings are allocated when the object is created. A descriptor
// filled by PollTransmit refers to registered memory; it must be sent or
// dropped before the engine is called again.
//
// # Inside
//
// engine.go checks a packet and hands it to a part of its QP: the responder
// (responder*.go, uc.go, ud.go) if it is a request, the requester
// (completer.go) if it is a response. Both put the QP on the ready list
// (ready.go) when they have something to send; PollTransmit gives the QPs
// turns, in which responses go before requests. A QP with congestion control
// (congestion.go) has shorter turns, of what its rate admits, and leaves the
// list when that is used up. Timers (timer.go) belong to
// one part each.
//
// The requester's files are listed at its type; the rules that hold between
// the parts are:
//
//   - QP.fatal moves a QP to ERR, flushes both queues and raises an event;
//     enterErr does the same silently, because a completion has told.
//   - requester.failHead completes the oldest send request with an error and
//     ends the send queue: ERR for RC, SQE for UC and UD.
//   - A part that calls fatal, failHead or pushes a completion looks at the
//     QP's state before it goes on: the queue may be gone.
//   - takeRecv hands out one receive request at a time; whoever took it
//     completes it and calls recycleRecv, or the flush does.
//   - In ERR a responder may linger after a NAK that ended its QP: it sends what it
//     owes up to that NAK, and answers duplicates. Otherwise, and afterwards, nothing
//     is sent.
//
// # Limits
//
// See limits.go. An idle connected QP with 16 receive requests posted takes
// 2 KiB; the ring of its send queue, 1.5 KiB for 16 requests of one element,
// is made by the first PostSend.
//
// # Tests
//
// Transcripts and drills name every packet (transcript_test.go, rules*_test.go,
// deviations_test.go, scenario_test.go); they run on a pair of engines in
// virtual time (pair*_test.go), one of which may be played by the test
// (puppet_test.go). TestSwarm, TestUnreliableSwarm, TestQueuePairLives and
// TestRandomPrograms draw everything from a seed and print it when they fail;
// -seed N runs one of them alone and -swarm N that many. TestSwarm also watches
// the trace for the micro-behaviours of microbehaviour_test.go.
package transport
