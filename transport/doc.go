// Package transport is the protocol engine: queue pairs, completion queues, shared receive queues,
// the RC, UC and UD state machines, retry and RNR timers. It is sans-IO: it never opens a socket,
// reads a clock, starts a goroutine, logs, or draws from a global source of randomness.
//
// # Contract
//
// One [Engine] is one shard: it owns its QPs and their timers, and uses the device's table of
// registered memory. The shell (package roce) calls the engine and gets data back:
//
//   - input: [Engine.HandlePacket], [Engine.HandlePackets] or [Engine.HandleUnverified],
//     [Engine.HandleTimeout];
//   - commands: [QP.PostSend], [QP.PostRecv], [QP.Modify], and the Create and Destroy methods of
//     the verbs objects;
//   - output: [Engine.PollTransmit] fills packet descriptors that the link owns,
//     [Engine.NextTimeout] says when HandleTimeout is due, [Engine.PollEvent] returns notifications
//     and asynchronous events, [CQ.Poll] returns completions;
//   - getters: [QP.Query], [Engine.Counters].
//
// After any input or command the shell polls in this order: PollTransmit until it returns 0, then
// PollEvent until it is empty, then NextTimeout.
//
// # Time
//
// The caller passes in time as an int64 of nanoseconds on any monotonic scale; the shell reads its
// clock once per batch. Zero is not special.
//
// A timer that expires concludes that no packet has come. So before the shell runs a timer, it must
// hand over all packets that had arrived when the timer was due. While packets keep arriving,
// [Engine.HandleTimeoutUntil] runs only the timers that meet this condition.
//
// # Concurrency
//
// One goroutine at a time may use an Engine and everything created from it; the shell holds a lock.
// The exceptions are [CQ.Poll], [CQ.Arm], [CQ.Len], [CQ.Waiting] and [CQ.Overflowed], which one
// consumer may call while the engine runs, and [CQ.Told], which any goroutine may call.
//
// A device may have several engines, each with its own lock, on separate cores. They share one
// [mem.Table] and divide the QP numbers between them ([Config].Slot), so a number names one QP in
// the whole device. A QP may use any region, window or PD of the table, but only address handles of
// its own engine. CQs and SRQs of another engine need a call of Share first, with the locks of both
// engines held (share.go). Each engine raises the events that it causes, including those of another
// engine's CQ or SRQ. A shared CQ that overflows ends the QPs of each engine at their next
// completion. Only the engine that made an object may Resize or Destroy it.
//
// # Room
//
// A datagram receiver has a buffer and no back pressure, so the engine bounds the packets in flight
// over all QPs (room.go). [Config].Room says what this device's link holds. READs may request three
// quarters of it at a time; a longer READ is split into several requests. All other requests to one
// address share half of it. The peer's room is unknown, so this device's serves as the guess: loss,
// and round trips of a quarter of the ACK timeout, cut it, down to a sixteenth; progress restores
// it. QPs that find no room wait in order. There is no bound on QPs without an ACK timeout, on the
// unreliable transports, or on what peers read here, which the peers bound.
//
// # Memory
//
// Data paths do not allocate in the steady state: rings of work requests and completions grow to
// the size that a program uses, and stay. A descriptor filled by PollTransmit refers to registered
// memory; it must be sent or dropped before the engine is called again.
//
// Mapped memory that was registered may be gone when it is accessed. If the shell sets
// debug.SetPanicOnFault around its calls, and hands packets to [Engine.HandlePackets], such a fault
// ends a queue pair and not the process: with a local protection error for this side's requests and
// receives, with a remote access error for those of the peer. The link reads payloads as well; the
// shell reports a fault there with [Engine.TransmitFault]. The region is lost (mem.Table.Lose). A
// UC or UD message is already complete when the link gets it, so EventQPFatal reports that it was
// not sent.
//
// # Inside
//
// engine.go checks a packet and passes it to one part of its QP: requests to the responder
// (responder*.go, uc.go, ud.go), responses to the requester (completer.go). Consecutive packets
// with nearly equal headers are handled together (run.go). Either part puts the QP on the ready
// list (ready.go) when it has something to send. PollTransmit gives the QPs turns, in which
// responses go before requests. A QP with congestion control (congestion.go) gets turns sized by
// its rate, and leaves the list when its budget is used up. Each timer (timer.go) belongs to one
// part.
//
// The type requester lists its files. These rules hold between the parts:
//
//   - QP.fatal moves a QP to ERR, flushes both queues and raises an event; enterErr raises none,
//     because a completion has reported the error.
//   - requester.failHead completes the oldest send request with an error and ends the send queue:
//     ERR for RC, SQE for UC and UD.
//   - A part that calls fatal or failHead, or pushes a completion, checks the QP's state before it
//     continues: the queue may be gone.
//   - takeRecv hands out one receive request at a time; its taker completes it and calls
//     recycleRecv, or the flush does.
//   - In ERR a responder first sends what it owed up to the NAK that ended its QP, then may repeat
//     that NAK for a while. It answers nothing else: it executes no READ again and sends no saved
//     result. After Modify to ERR it sends nothing at all.
//
// # Messages that leave as several
//
// On a link that segments ([Config].GSO) a WRITE of 2 to 64 packets leaves as that many WRITE ONLY
// messages, and a short READ is requested packet by packet, so that packets of many messages share
// datagrams (requester.apart). The program still sees one request and one completion, with one
// difference: if the peer refuses a packet, because it exceeds a region or a right was taken away,
// the packets before it have already been written. WRITEs with immediate data, and longer ones,
// change nothing if their first packet is refused.
//
// # What others can do
//
// RoCE authenticates nobody. A packet counts as the peer's if its addresses and QP number match,
// and has an effect if its PSN fits. This table shows what that bounds, and what this package adds:
//
//	who            does                      and gets
//	knows no PSN   requests with random      no NAK if far ahead (minNearGap) while the
//	               PSNs                      peer's packets come; one PSN in 4096 is near.
//	                                         A packet behind gets one ACK, no larger. No
//	                                         EventCommEstablished on RC
//	knows no PSN   tries all PSNs            a request executed within 2^24 packets: an empty
//	                                         WRITE needs no key, and the peer's next message
//	                                         is then lost as a duplicate. Only the 24 bits
//	                                         bound this
//	knows no PSN   a fatal NAK               the QP ended, if its PSN is outstanding and its
//	                                         MSN the one that fits (believe.go): one of 2^48
//	                                         divided by the packets in flight
//	knows no PSN   an ACK, RNR NAK or        requests completed or repeated, if the PSN is
//	               sequence NAK              outstanding and the MSN fits: one of 2^47
//	                                         divided by the square of the messages in flight
//	knows no PSN   CNPs, which have no PSN   no more rate cuts than packets leave: while they
//	                                         come, 20 to 120 Mb/s of 10 Gb/s with packets of
//	                                         1 KiB, then full rate after 0.1 s (DCQCNPaper)
//	                                         or 1 s (DCQCNMellanox). A counter without
//	                                         congestion control, the default
//	knows no PSN   marked packets            nothing: they count only if expected next
//	has seen one,  repeats a READ            the READ 16 times more (readCopies), then a
//	or is the peer                           packet every readAgainNs; while it is being
//	                                         answered, the rest of it once
//	peer           a NAK for each packet     a window of 4 packets (minWindow). A NAK that
//	                                         shows progress draws about as many; one without
//	                                         counts once per round trip (minEpisodeNs if
//	                                         unknown) and costs a retry. None ends the queue
//	                                         pair: the ACK timeout after the last retry does
//	peer           RNR NAKs for ever         a packet for each, until rnr_retry ends it; 7
//	                                         means for ever
//	peer           marked packets            a CNP every CNPGap
//	peer           anything after a fatal    the same NAK, for FatalLinger
//	               NAK
//
// # Loss
//
// Selective repeat (missing.go) repairs a gap that later packets show, if the peer knows it;
// otherwise the requester goes back (retry.go), on a sequence NAK or a gap in responses. When the
// last packets are lost nothing shows it: a probe finds that after a few round trips (probe.go), or
// else the ACK timeout does. Only timeouts and NAKs use up retries. docs/loss.md gives times.
//
// # Limits
//
// See limits.go. An idle connected QP with 16 receive requests posted takes 2.3 KiB. The ring of
// its send queue begins with the first PostSend and takes 1.5 KiB for 16 requests of one element.
// The rings of receive and completion queues grow with their contents too; equal receive requests
// without memory share one slot.
//
// # Tests
//
// Transcripts and drills name every packet (transcript_test.go, rules*_test.go, deviations_test.go,
// scenario_test.go). They run a pair of engines in virtual time (pair*_test.go); the test may play
// one of the two (puppet_test.go). TestSwarm, TestUnreliableSwarm, TestQueuePairLives,
// TestRandomPrograms, TestHostilePeer and the tests against models draw everything from a seed and
// print it when they fail; -seed N runs that seed alone, -swarm N runs N seeds, -soak 10m runs new
// ones for that long, and make soak runs all of these tests. TestSwarm also checks the trace for
// the micro-behaviours of microbehaviour_test.go. TestEverySchedule leaves nothing to chance: it
// runs small programs under every schedule within a budget of faults (schedules*_test.go).
//
// TestSwarm has passed 1,478,000 seeds since its last failure: 466,000 at commit 797469f, 851,000
// at c63d0a4, 160,000 before. Of the 190,000 seeds before those, five failed; the engine, or the
// test's model, was repaired.
package transport
