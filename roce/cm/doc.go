// Package cm is the communication manager: the protocol by which two nodes set
// up and take down reliable connections (REQ, REP, RTU, REJ, MRA, DREQ, DREP)
// and look up datagram services (SIDR_REQ, SIDR_REP), in management datagrams
// between their QP 1.
//
// # Shape
//
// An [Agent] is sans-IO: it has no clock, no socket and no goroutine. Its owner
// calls
//
//   - input: [Agent.HandleMAD], [Agent.HandleTimeout];
//   - commands: [Agent.Listen], [Agent.Connect], [Agent.Resolve] and the methods of
//     [Conn] and [Listener];
//   - output, after any of these and until there is no more:
//     [Agent.PollTransmit], [Agent.PollEvent]; then [Agent.NextTimeout].
//
// Time is an int64 of nanoseconds on the owner's clock. Random numbers come
// from the reader in [Config].
//
// A [Conn] is one connection, or one datagram lookup, seen from one end. Its
// states are those of IBTA 12.9; the messages each state takes are in the
// table of state.go. What package roce makes of it (RDMA-CM: addresses, ports, queue
// pairs) is not known here but for the 36 bytes that RDMA-CM puts in front of
// private data.
//
// # Invariants
//
//   - Every message that wants an answer is repeated until the answer comes or
//     the tries are used up; every answer is repeated for every duplicate.
//   - A connection request reaches the application at most once, however often
//     its REQ arrives, as long as its record lives: until the end of TIMEWAIT.
//   - A Conn that its owner destroyed makes no events. Its record goes on until
//     the peer knows and TIMEWAIT is over, and then nothing is left of it.
//   - A message is only believed if its source address and both communication
//     IDs fit, and those are random.
//   - Bad input of any kind is a counted drop or a REJ.
//
// # Limits
//
// Connections, connection requests that wait for the application, half-open
// connections, records in TIMEWAIT and datagrams to send are bounded: see
// [Limits]. A listener that is flooded drops REQs beyond its backlog silently,
// as Linux does, so that an honest client's next try may get in, and gives up
// the oldest half-open connection for a new one, so that peers that never
// answer take from each other first; one that has most of the memory loses its own.
//
// In bytes, with [DefaultLimits]: whatever peers send that never answer, the
// agent holds at most [FloodBytes], 32 MiB (measured: 22, of which a record in
// TIMEWAIT has up to 700 bytes; a half-open connection has about 1 KiB), and
// makes its owner hold at most Limits.HalfOpenBytes, 64 MiB, or one connection
// if that is more, as far as the owner tells how much it holds.
//
// # Concurrency
//
// None: the owner serialises all calls of an Agent and of its objects.
//
// References: InfiniBand Architecture Specification volume 1, chapter 12; annex
// A11 (RDMA IP CM service). Where Linux was seen to differ, comments say so.
package cm
