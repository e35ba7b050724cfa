// Package mad holds the wire formats of management datagrams and of the
// communication management messages that they carry: what travels between the
// QP 1 of two nodes when RDMA-CM sets up, and takes down, a connection.
//
// # Shape
//
// [Parse] checks a datagram and splits it into its [Header] and its 232 bytes
// of data; Header.Attribute tells which message those are: [REQ], [REP],
// [RTU], [REJ], [MRA], [DREQ], [DREP], [SIDRReq], [SIDRRep], [LAP], [APR].
// Each has a Decode that reads every field, with private data as a slice of
// the datagram, and a Put that writes all 232 bytes. [CMAHeader] is what
// RDMA-CM puts at the start of the private data of REQ and SIDR_REQ.
//
// # Invariants
//
//   - Neither Decode nor a successful Put allocates. Private data of a decoded
//     message aliases the datagram.
//   - Decode takes any bytes: every bit pattern of a fixed-size field is a
//     value, and what it means is for the receiver to judge (a REJ is the
//     answer to a bad one, not silence).
//   - Put refuses values that do not fit their bits and private data that is
//     too long, with a [*FieldError], and then writes nothing.
//   - What decodes encodes to the same bytes but for reserved bits, which are
//     not looked at and sent as zero.
//
// # Concurrency
//
// Everything is a plain value; the package has no mutable state after init.
//
// References: InfiniBand Architecture Specification volume 1, 12.6 and 13.4,
// and annex A11 (RDMA IP CM service).
package mad
