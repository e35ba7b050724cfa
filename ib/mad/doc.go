// Package mad holds the wire formats of management datagrams and of the communication management
// messages in them, which travel between the QP 1 of two nodes when RDMA-CM sets up and takes down
// a connection.
//
// # Shape
//
// [Parse] checks a datagram and splits it into its [Header] and its 232 bytes of data.
// Header.Attribute tells which message the data is: [REQ], [REP], [RTU], [REJ], [MRA], [DREQ],
// [DREP], [SIDRReq], [SIDRRep], [LAP], [APR]. Each has a Decode that reads every field, with
// private data as a slice of the datagram, and a Put that writes all 232 bytes. [CMAHeader] is what
// RDMA-CM puts at the start of the private data of REQ and SIDR_REQ.
//
// # Invariants
//
//   - Neither Decode nor a successful Put allocates. Private data of a decoded message aliases the
//     datagram.
//   - Decode accepts any bytes: every bit pattern of a fixed-size field is a value, and the
//     receiver judges its meaning (it answers a bad one with a REJ, not with silence).
//   - Put refuses values that do not fit their bits and private data that is too long, with a
//     [*FieldError], and then writes nothing.
//   - A decoded message encodes to the same bytes, except for reserved bits: they are ignored and
//     sent as zero.
//
// # Concurrency
//
// Everything is a plain value; the package has no mutable state after init.
//
// References: InfiniBand Architecture Specification volume 1, 12.6 and 13.4, and annex A11 (RDMA IP
// CM service).
package mad
