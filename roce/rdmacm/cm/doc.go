// Package cm is the communication manager: the protocol by which two nodes set up and take down
// reliable connections (REQ, REP, RTU, REJ, MRA, DREQ, DREP) and look up datagram services
// (SIDR_REQ, SIDR_REP), in management datagrams between their QP 1.
//
// # Shape
//
// An [Agent] is sans-IO: it has no clock, no socket and no goroutine. Its owner calls
//
//   - input: [Agent.HandleMAD], [Agent.HandleTimeout];
//   - commands: [Agent.Listen], [Agent.Connect], [Agent.Resolve] and the methods of [Conn] and
//     [Listener];
//   - output, after any of these and until there is no more: [Agent.PollTransmit],
//     [Agent.PollEvent]; then [Agent.NextTimeout]. An owner that takes requests only when it is
//     ready for them calls [Agent.PollConnEvent] and [Agent.PollListener] in place of PollEvent,
//     and [Listener.Next] when it is ready.
//
// Time is an int64 of nanoseconds on the owner's clock. Random numbers come from the reader in
// [Config].
//
// A [Conn] is one connection, or one datagram lookup, seen from one end. Its states are those of
// IBTA 12.9; the table in state.go has the messages that each state takes. The package does not
// know RDMA-CM (addresses, ports, queue pairs), except for the 36 bytes that RDMA-CM puts in front
// of private data.
//
// # Invariants
//
//   - Every message that wants an answer is repeated until the answer comes or the tries are used
//     up; every answer is repeated for every duplicate.
//   - A connection request reaches the application at most once, however often its REQ arrives, as
//     long as its record lives: until the end of TIMEWAIT.
//   - A Conn that its owner destroyed raises no events. Its record lives on until the peer knows
//     and TIMEWAIT is over; then nothing is left of it.
//   - A message is believed only if its source address and both communication IDs fit, and those
//     are random; the first answer to a request must know one of them, and the transaction ID. The
//     exceptions are a REQ, which only makes a request, and the REJ by which its sender takes it
//     back.
//   - A REQ in the name of a connected peer ends nothing: see Stats.StaleClaims. It is refused, and
//     the peer is asked whether it still knows the connection.
//   - Bad input of any kind is a counted drop or a REJ.
//
// # Limits
//
// Connections, connection requests that wait for the application, half-open connections, records in
// TIMEWAIT and datagrams to send are bounded: see [Limits], and [Listener.SetMaxConns]. [Stats]
// counts each bound that is reached. A flooded listener drops REQs beyond its backlog silently, as
// Linux does. An honest client's next try gets in: repeated requests, and those of addresses that
// have confirmed a connection before, go before all others and take their place.
//
// If there is no room for another half-open connection, requests wait unanswered in the backlog.
// Confirmed connections make room. Also, the oldest half-open connection is given up when its peer
// has ignored the REP for 750 ms and a request waits, so that peers that never answer take room
// only from each other. In a flood of these the time shrinks down to 250 ms, and honest requests go
// first: see rank.go. The peer of a connection that is given up is told, with a REJ that is
// repeated: it may believe that it is connected.
//
// A request waits in the queue of its listener until the owner takes it. It leaves the queue when
// its sender takes it back, or does not repeat it for half a minute (for four times its announced
// interval, if that is more, up to 140 s): then nothing is left of it, and the owner never hears of
// it. The events of connections are bounded by the connections: each has at most four.
//
// A node that a forged REQ names as its sender gets four REPs and a REJ in half a minute, if the
// application accepts, and one answer to each further REQ; in a flood one REP and one REJ, and most
// of the REQs get nothing. A peer that answers a REP, or a REQ, with an MRA gets up to 137 s,
// however many MRAs it sends. A connection request that the application never takes ends with
// EventUnreachable after that time and the usual tries.
//
// In bytes, with [DefaultLimits]: whatever peers send that never answer, the agent holds at most
// [FloodBytes], 32 MiB (23 were measured; a record in TIMEWAIT has up to 700 bytes, a half-open
// connection about 1 KiB). It makes its owner hold at most Limits.HalfOpenBytes, 64 MiB, or one
// connection if that is more. A listener expects each connection to need what the owner stated for
// the one before, in [Accept].
//
// # Concurrency
//
// None: the owner serialises all calls of an Agent and of its objects.
//
// References: InfiniBand Architecture Specification volume 1, chapter 12; annex A11 (RDMA IP CM
// service). Comments say where Linux was seen to differ.
package cm
