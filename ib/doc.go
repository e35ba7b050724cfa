// Package ib holds the InfiniBand vocabulary and the RoCE v2 wire formats: opcodes, the base
// transport header and every extended header, the invariant CRC, packet sequence numbers, AETH
// syndromes, timer codes, keys and GIDs.
//
// # Shape
//
// [Opcode] indexes one table that says, for each of the RC, UC, UD and CNP opcodes, which headers
// follow the BTH and how much payload is legal. [Packet] is the flat, decoded form of one packet;
// [Packet.Decode] fills it from the bytes of a UDP payload and [Packet.PutHeaders] writes it back.
// The payload of a decoded packet aliases the input.
//
// [ICRC] computes the invariant CRC of a flow's packets, in pieces for a sender, and verifies it
// for a receiver, even if the IPv4 identification that it covers is unknown. [GRH] precedes a
// datagram in a receive buffer. Package mad, below, has management datagrams and the messages of
// connection management.
//
// # Invariants
//
//   - Decoding never allocates, never panics and never reads past its input, whatever the bytes
//     are.
//   - Bytes that decode without error encode to the same bytes: PutHeaders after Decode gives back
//     the headers bit for bit, including reserved fields. Payload, padding and ICRC follow them in
//     the decoded buffer, in this order and without a gap. Padding is ignored: senders write zeros.
//   - Nothing here does I/O, reads a clock, starts a goroutine or logs.
//
// # Concurrency
//
// Everything is a plain value; the package has no mutable state after init.
//
// References: InfiniBand Architecture Specification volume 1 (chapters 5, 9) and its annexes A17
// (RoCE v2) and A19 (memory placement extensions). Comments name Linux rdma_rxe or ConnectX
// wherever these deviate.
package ib
