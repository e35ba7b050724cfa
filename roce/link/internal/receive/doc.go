// Package receive is the receiving side that links share: [Splitter] splits datagrams into packets
// and checks their ICRCs, and [Counters] counts the results.
//
// # Invariants
//
//   - Packets handed up refer to the memory of the datagram: the link must not reuse it before the
//     next Recv, or while the Splitter is Pending.
//   - Nothing here allocates or blocks.
//
// # Concurrency
//
// A Splitter belongs to the receiving side of a link. Counters may be read from anywhere.
package receive
