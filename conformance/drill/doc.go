// Package drill runs packet drills: short scripts, one behaviour of RoCE v2 each, that say
// which packets a peer is sent, and what it has to answer, complete and leave in memory.
//
// # Scripts
//
// A script is text (scripts/*.drill). Its head says what it checks, on what authority, and who is
// known to differ; the steps behind it set up queue pairs and memory at the peer under test, inject
// packets (>), expect packets (<), post work requests, and look at completions and memory.
// docs/drills.md is the manual. Parse reads one, List returns those of this package.
//
// # Targets
//
// A Target is an implementation with a wire to it; Run plays a drill on one. The same
// script runs on
//
//   - NewEngine: this module's device on a link of its own, in virtual time: repeatable, and
//     a timeout of a second takes microseconds;
//   - NewUDP: the same device on the udp link, with UDP sockets of the drill on other
//     addresses of this machine;
//   - NewPeer: any peer.Peer that packets reach by UDP: rxe in a guest of the lab (cmd/lab drill), or a machine on
//     which the verbs agent runs.
//
// The other end of the connection is the drill itself: it encodes packets with package ib
// and has no engine.
//
// # Profiles
//
// Implementations differ legitimately, and some have faults that are known. A line of a script may
// be for some profiles only ("spec", "goroce", "rxe", "rxe-6.1", "connectx"), and the head names
// each difference ("deviates"). Run plays a drill as the specification has it, and if that fails as
// the target's own profile has it: then the verdict is Deviates, with the names of the differences.
//
// # Concurrency
//
// A Drill is never changed after Parse. A Target runs one drill at a time.
//
// # Limits
//
// A script has at most MaxScriptBytes, and MaxSteps steps when its loops are unrolled. A run
// ends at the first difference.
package drill
