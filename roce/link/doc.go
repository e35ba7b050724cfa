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
// # Concurrency
//
// A link has a sending side and a receiving side. Each is used by one
// goroutine at a time, the two concurrently. Wake, Stats, the getters, and the
// methods of [Multicaster] and [Watcher] may be called from anywhere, also while the link
// closes; Close when neither side is in use.
package link
