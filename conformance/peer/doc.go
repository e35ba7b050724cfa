// Package peer is what the conformance checks need of an RDMA implementation, whichever
// it is. A check is written once, against two Peers; adapters exist for what is behind a verbs
// agent (Agent), such as the kernel's rxe or a network card, and for this module's stack in this
// process (Goroce).
//
// The numbers are those of libibverbs, restated here so that no check depends on the
// code under test for its idea of what a status or an opcode is.
//
// # Agents
//
// An AgentClient turns calls into the lines of a verbs agent, in C (verbsd) or in Go (package
// agent), and back; lab/agent/verbsd.h describes them. It is one session: its end frees every
// object that it made. Calls from several goroutines are serialised.
//
// # Memory
//
// Contents are made and checked where the memory is, by a pattern that depends on a
// seed, so that a megabyte costs no transfer of a megabyte to verify each byte.
//
// # Concurrency
//
// A Session is used from one goroutine at a time. Different sessions are independent.
package peer
