// Package stage sets up two hosts on a simulated network, connects a queue pair of each, and
// records every packet at three places: on either host, and on the wire between. It is what
// the lessons of cmd/roce and the tests of the analyser play on.
//
// # Shape
//
// [New] makes a [Stage] with two [Host]s, whose devices, queue pairs and memory are those of
// package verbs. [Host.Faults] takes rules of roce/link/fault, which act between the host and the
// wire, as a network would. [Stage.Do] posts a work request and waits for its completion in virtual
// time. [Stage.Capture] is a pcapng file, [Stage.Report] what the analyser says of it.
//
// Everything depends on the configuration alone: two runs are the same, packet by packet.
//
// # Concurrency
//
// A Stage belongs to one goroutine.
package stage
