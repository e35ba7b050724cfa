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
//   - input: [Engine.HandlePacket], [Engine.HandlePackets] or [Engine.HandleUnverified], [Engine.HandleTimeout];
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
// A timer concludes that nothing has come. So the shell hands over all packets
// that had arrived by the time a timer was due before it runs the timer; while
// more keeps arriving, [Engine.HandleTimeoutUntil] runs those that this is true of.
//
// # Concurrency
//
// An Engine and everything created from it is used by one goroutine at a
// time; the shell holds a lock. The exceptions are [CQ.Poll], [CQ.Arm], [CQ.Len]
// and [CQ.Overflowed], which one consumer may call concurrently with the engine.
//
// A device may have several engines, each with a lock, on cores of their own. They have one [mem.Table] and
// different parts of the QP numbers ([Config].Slot), so that a number is one QP's in the whole device. A QP uses
// regions, windows and PDs of the table, whoever made them, address handles of its own engine, and
// CQs and SRQs of its own engine, or of another one after Share was called with the locks of both held
// (share.go). An engine raises the events that it has the cause of, also those of a CQ or an SRQ of
// another engine. A shared CQ that overflows ends the QPs of each engine at their next
// completion. Resize and Destroy are commands of the engine that made the object.
//
// # Room
//
// A datagram receiver has a buffer and no back pressure, so the engine bounds what is
// on its way, over all QPs (room.go). [Config].Room is what this device's link holds.
// READs ask for three quarters of it at a time: a READ that is longer is asked for in
// parts, each a request of its own. Other requests to one address share half as much,
// since the peer's room is not known and this device's is the best guess; loss, and round
// trips of a quarter of the ACK timeout, make it less, down to a sixteenth, and progress
// makes it that again. QPs that find no room wait in order. QPs without ACK timeout are not bounded,
// nor are the unreliable transports and what peers read here, which peers bound.
//
// # Memory
//
// The data path does not allocate: packet descriptors, work queue slots and
// completion rings are allocated when the object is created. A descriptor
// filled by PollTransmit refers to registered memory; it must be sent or
// dropped before the engine is called again.
//
// Registered memory that was mapped may not be there any more when it is accessed.
// A shell that sets debug.SetPanicOnFault around its calls, and hands packets to
// [Engine.HandlePackets], has that end a queue pair and not the process: a local
// protection error for requests and receives of this side, a remote access error for those of
// the peer. The link reads payloads, too: the shell tells of a fault there with
// [Engine.TransmitFault]. The region is lost (mem.Table.Lose). A UC or UD message was complete
// when it was handed to the link: EventQPFatal tells that it was not sent.
//
// # Inside
//
// engine.go checks a packet and hands it to a part of its QP: the responder
// (responder*.go, uc.go, ud.go) if it is a request, the requester
// (completer.go) if it is a response. Packets that follow each other and have most in common go the same way
// together (run.go). Both put the QP on the ready list
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
//   - In ERR a responder may repeat the NAK that ended its QP, for a while, after it
//     has sent what it owed up to that NAK. It answers nothing else: no READ is
//     done again, no saved result is sent. After Modify to ERR nothing is sent at all.
//
// # Messages that leave as several
//
// On a link that segments ([Config].GSO) a WRITE of 2 to 64 packets leaves as that many WRITE ONLY messages, and a READ of a
// few is asked for packet by packet, so that packets of many messages share datagrams (requester.apart). For the
// program it is one request with one completion. It differs in one thing: a WRITE that fails at the peer, because it
// exceeds a region or a right was taken away, has changed what was before the packet that failed. WRITEs with immediate data, and those
// of more packets, change nothing if their first packet is refused.
//
// # What others can do
//
// RoCE authenticates nobody. Addresses and QP number make a packet one of the peer's,
// and the PSN one that counts. What that bounds, and what this package adds:
//
//	who            does                      and gets
//	knows no PSN   requests with random      no NAK if far ahead (minNearGap) while the
//	               PSNs                      peer's packets come: one in 4096 is near.
//	                                         A packet behind: one ACK, no larger. No
//	                                         EventCommEstablished on RC
//	knows no PSN   tries all PSNs            after 2^24 packets a request of his is
//	                                         executed: a WRITE of nothing needs no key, and
//	                                         the peer's next message is then lost as
//	                                         a duplicate. Nothing bounds this but 24 bits
//	knows no PSN   a fatal NAK               ends the QP if its PSN is outstanding and its MSN
//	                                         the one that fits (believe.go): 2^48 through the
//	                                         packets in flight
//	knows no PSN   an ACK, RNR NAK or        completes requests, or has them repeated, if the
//	               sequence NAK              PSN is outstanding and the MSN one of those that
//	                                         fit: 2^47 through the square of the messages in
//	                                         flight
//	knows no PSN   CNPs, which have none     no more rate cuts than packets leave, 20 to 120 Mb/s
//	                                         of 10 Gb/s with packets of 1 KiB while they come;
//	                                         full rate 0.1 s later
//	                                         (DCQCNPaper) or 1 s (DCQCNMellanox).
//	                                         Without congestion control, the default: a
//	                                         counter
//	knows no PSN   marked packets            nothing: they count if they are the next expected
//	has seen one,  repeats a READ            the READ 16 times more (readCopies), then a
//	or is the peer                           packet each readAgainNs; while it is being
//	                                         answered, what is still to come once
//	peer           a NAK for each packet     the window shrinks to 4 packets (minWindow):
//	                                         about as many for a NAK that shows progress.
//	                                         Without progress: once in a round trip
//	                                         (minEpisodeNs if none is known), and a
//	                                         retry each. None ends the queue pair: the ACK
//	                                         timeout after the last retry does
//	peer           RNR NAKs for ever         a packet for each, until rnr_retry ends it; 7
//	                                         is for ever
//	peer           marked packets            a CNP each CNPGap
//	peer           anything after a fatal    the same NAK, for FatalLinger
//	               NAK
//
// # Loss
//
// A loss that something behind it shows is repaired by going back (retry.go): on a
// sequence NAK, and on a gap in responses. What nothing shows, the loss of the end,
// is found by a probe after a few round trips (probe.go), and at last by the ACK
// timeout. Only the latter and NAKs use up retries. docs/loss.md has times.
//
// # Limits
//
// See limits.go. An idle connected QP with 16 receive requests posted takes
// 2.3 KiB; the ring of its send queue, 1.5 KiB for 16 requests of one element,
// is made by the first PostSend. Rings of receive and completion queues, too, grow with what
// is in them, and receive requests without memory that are equal take the room of one.
//
// # Tests
//
// Transcripts and drills name every packet (transcript_test.go, rules*_test.go,
// deviations_test.go, scenario_test.go); they run on a pair of engines in
// virtual time (pair*_test.go), one of which may be played by the test
// (puppet_test.go). TestSwarm, TestUnreliableSwarm, TestQueuePairLives,
// TestRandomPrograms, TestHostilePeer and the tests against models draw everything
// from a seed and print it when they fail; -seed N runs that one alone, -swarm N
// that many, -soak 10m new ones for so long, and make soak all of them. TestSwarm
// also watches the trace for the micro-behaviours of microbehaviour_test.go.
// TestEverySchedule leaves nothing to chance: it plays small programs under every
// schedule within a budget of faults (schedules*_test.go).
//
// TestSwarm ran over 1,478,000 seeds since the last failure, and none failed: 466,000 of them at
// commit 797469f, 851,000 at c63d0a4, 160,000 before. Of 190,000 before those five
// failed: the engine, or the model of the test, was repaired.
package transport
