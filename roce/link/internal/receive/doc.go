// Package receive is the receiving side that links have in common: datagrams
// are taken apart into packets ([Splitter]), whose ICRC is checked on the way,
// and what becomes of them is counted ([Counters]).
//
// # Invariants
//
//   - What is handed up refers to the memory of the datagram: the link must not
//     use that again before the next Recv, nor while the Splitter is Pending.
//   - Nothing here allocates or blocks.
//
// # Concurrency
//
// A Splitter belongs to the receiving side of a link. Counters may be read from
// anywhere.
package receive
