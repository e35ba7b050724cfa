// Package link is the boundary between a device and the network: the [Link] interface, and what all
// links share, which is the ICRC of packets sent ([FlowICRC], [AppendPacket]) and received
// ([Verifier]).
//
// Links live in packages below: udp (a plain UDP socket), packet (AF_PACKET), xdp (AF_XDP), sim (a
// virtual fabric); trace and fault wrap any of them.
//
// # Invariants
//
//   - A link never hands up a packet whose ICRC is wrong, except by [Unverified.RecvUnverified],
//     which marks packets whose ICRC was not checked.
//   - Send takes every packet it is given: it sends it, keeps a copy to send later, or counts it as
//     dropped. The transport recovers drops.
//   - Neither Send nor Recv blocks, and neither allocates in steady state.
//
// # When a system call fails
//
// An error loses a packet, keeps a packet, or ends the link; the packages below say which. The
// transport recovers lost packets, as on a wire. No error keeps a goroutine busy: if an error
// persists, and each poll ends at once, Wait sleeps for a millisecond before it looks again.
//
// A socket that no longer exists ends its link: something in the process has closed it or put
// another file in its place (EBADF, ENOTSOCK, ENOTCONN), has shut it down (EPIPE), or an
// administrator has destroyed it (ECONNABORTED). Once either side finds that, Recv and Wait wake up
// and return the error from then on; Send counts its packets as dropped, and makes no call. A
// device on the link ends: see package verbs.
//
// # Clocks
//
// On links with sockets, Now is CLOCK_MONOTONIC: it does not jump when the time of day is set, and
// stands still while the machine is suspended. So a suspension alone causes no timeout. But a peer
// that was not suspended has given up by then, after its own timeouts, and does not answer later
// requests: their retries run out as for any peer that is gone.
//
// # Concurrency
//
// A link has a sending side and a receiving side. Each is used by one goroutine at a time, the two
// concurrently. Wake, Join, Leave, Watch, Stats and the getters may be called from anywhere, even
// while the link closes. Call Close when neither side is in use.
package link
