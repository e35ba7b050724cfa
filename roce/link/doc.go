// Package link is the boundary between a device and the network: the [Link]
// interface, and what every link shares, which is the ICRC of packets sent
// ([FlowICRC], [AppendPacket]) and received ([Verifier]).
//
// Links live in packages below: udp (a plain UDP socket), packet (AF_PACKET),
// xdp (AF_XDP), sim (a virtual fabric); trace and fault wrap any of them.
//
// # Invariants
//
//   - A link never hands up a packet whose ICRC is wrong, but by [Unverified.RecvUnverified], which
//     says of which it is not known.
//   - Send takes every packet it is given: it sends it, keeps a copy of it to
//     send later, or counts it as dropped. The transport recovers drops.
//   - Neither Send nor Recv blocks, and neither allocates in steady state.
//
// # When a system call fails
//
// An error is a packet lost, a packet kept, or the end of the link; the packages below say which is
// which. The transport recovers what is lost, as on a wire. No error keeps a goroutine busy: where
// one stays, and a poll ends at once each time, Wait sleeps for a millisecond before it looks
// again.
//
// A socket that is not there any more ends its link: something in the process has closed it or put
// another file in its place (EBADF, ENOTSOCK, ENOTCONN), has shut it down (EPIPE), or an
// administrator has destroyed it (ECONNABORTED). Whichever side finds that, Recv and Wait return
// the error from then on, and wake with it; Send counts what it gets as dropped, and makes no call.
// A device on the link ends: see package verbs.
//
// # Clocks
//
// Now is CLOCK_MONOTONIC on links with sockets: it does not jump when the time of day is set, and
// stands still while the machine is suspended. So nothing times out for that alone. A peer that
// was not suspended has given up by then, after its own timeouts, and what this side sends
// next is not answered: its retries run out as for any peer that is gone.
//
// # Concurrency
//
// A link has a sending side and a receiving side. Each is used by one
// goroutine at a time, the two concurrently. Wake, Join, Leave, Watch, Stats and the getters
// may be called from anywhere, also while the link closes; Close when neither side is in use.
package link
