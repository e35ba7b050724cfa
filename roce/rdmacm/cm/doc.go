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
//     [Agent.PollTransmit], [Agent.PollEvent]; then [Agent.NextTimeout]. An owner that
//     takes requests when it has a use for them calls [Agent.PollConnEvent] and
//     [Agent.PollListener] instead of PollEvent, and [Listener.Next] when it is ready.
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
//     IDs fit, and those are random; the first answer to a request knows one of them,
//     and the transaction ID. The exceptions are a REQ, which makes nothing
//     but a request, and the REJ by which its sender takes it back.
//   - A REQ in the name of a peer that is connected ends nothing: see
//     Stats.StaleClaims. The peer is refused, and asked whether it knows the connection.
//   - Bad input of any kind is a counted drop or a REJ.
//
// # Limits
//
// Connections, connection requests that wait for the application, half-open connections, records in
// TIMEWAIT and datagrams to send are bounded: see [Limits], and [Listener.SetMaxConns]. Each bound
// that is reached is counted in [Stats]. A listener that is flooded drops REQs beyond its backlog
// silently, as Linux does. An honest client's next try gets in: requests that come again, and those
// of addresses that have confirmed a connection before, go before all others and take their place.
// Where there is no room for another half-open connection requests wait unanswered in the backlog.
// Confirmed connections make room; and of half-open ones the oldest is given up when its peer has
// ignored the REP for 750 ms and a request waits, so that peers that never answer take from each
// other; in a flood of these it is less, down to 250 ms, and honest requests go first: see rank.go.
// A peer whose connection is given up is told, with a REJ that is repeated: it may think that it is
// connected.
//
// A request waits in the queue of its listener until the owner takes it, and leaves it
// when its sender takes it back, or does not repeat it for half a minute (for four
// times as long as it said, if that is more, up to 140 s): nothing is left of it, and the owner
// never hears of it. What the events of connections take is bounded by the
// connections: each has at most four.
//
// Somebody whom a forged REQ names as its sender gets four REPs and a REJ in half a minute, if the
// application accepts, and one answer to each further REQ; in a flood one REP and one REJ, and most
// of the REQs get nothing. A peer that answers a REP, or a REQ, with an MRA gets up to 137 s,
// however many MRAs it sends: who asks for a connection that the application never takes hears
// EventUnreachable after that and the usual tries.
//
// In bytes, with [DefaultLimits]: whatever peers send that never answer, the
// agent holds at most [FloodBytes], 32 MiB (measured: 23, of which a record in
// TIMEWAIT has up to 700 bytes; a half-open connection has about 1 KiB), and
// makes its owner hold at most Limits.HalfOpenBytes, 64 MiB, or one connection
// if that is more. A listener expects of each connection what the owner said
// of the one before, in [Accept].
//
// # Concurrency
//
// None: the owner serialises all calls of an Agent and of its objects.
//
// References: InfiniBand Architecture Specification volume 1, chapter 12; annex
// A11 (RDMA IP CM service). Where Linux was seen to differ, comments say so.
package cm
