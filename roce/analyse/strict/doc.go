// Package strict holds a capture against the rules of RoCE v2: what a requester or a responder may
// send next, given what it can have seen. It is an automaton of its own, which shares nothing
// with the engine (package transport) nor with what package analyse infers, so that
// either is checked by something that does not have its faults.
//
// # Shape
//
// [New] makes a [Checker]; [Checker.Add] takes one [pcap.Packet] after the other, in the order in
// which they were captured; [Checker.Report] ends it. A [Report] has a [Violation] for each packet
// that breaks a rule: which one, who broke it, what was allowed and what came. [Rules] lists the
// rules, with their clauses. [Read] does all of that with a file.
//
// # Certain or possible
//
// A capture is of one place, may begin in the middle, and may lack packets. What would explain a
// packet without a fault of its sender is its [Excuse]: one that the capture lacks, or has twice or
// out of order ([ExcuseCapture]), one that was lost, doubled or overtaken between the place of the
// capture and an end ([ExcuseWay]), what was sent before it began ([ExcuseBefore]), an older
// connection with the same numbers ([ExcuseReuse]), what no packet shows ([ExcuseUnseen]). A
// violation without an excuse is certain. The caller closes excuses: [Options].Complete says that
// the capture has all packets of its connections, Options.Lossless that the way to both ends loses
// and reorders nothing.
//
// What can have been received is bounded from above: a host has received no more than what has been
// seen on the way to it, wherever the capture was taken. So "this was acknowledged, and nobody had
// sent it" holds at the sender, at the receiver, and between. What must have been received is not
// known: frames are dropped behind the place where they are captured, too.
//
// # Bounds
//
// Any packets may come, in any order. Memory is bounded: connections, records of requests and
// violations have limits, and what was left out is counted. Time is linear, but for READs: a
// response looks through those outstanding.
//
// # Concurrency
//
// A Checker belongs to one goroutine. There is no I/O, clock or randomness.
package strict
