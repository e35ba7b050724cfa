// Package pcap reads and writes capture files, and finds the RoCE v2 packets in their frames.
//
// # Shape
//
// [Reader] reads pcap (micro- and nanoseconds, either byte order) and pcapng, frame by frame.
// [Decoder] parses a [Frame]: Ethernet, the two link types of tcpdump -i any (SLL, SLL2), raw IP,
// loopback; VLAN tags; IPv4 and IPv6; VXLAN and Geneve; UDP; and then the transport headers, into
// [Packet]s. A frame has more than one packet if the capturing host segments later (UDP GSO) or has
// merged already (GRO): their headers and ICRCs tell them apart. [Writer] writes a pcap file of
// frames as they were read, or of packets as raw IP.
//
// # Bad input
//
// Any bytes may come. If a file is invalid from some place on, the error is a [*FormatError] with
// the offset; everything before it is good. Frames without a valid RoCE v2 packet are counted by
// reason ([Decoder.Counts]). A length claimed by the file causes no allocation beyond
// [MaxRecordBytes], the longest record.
//
// # Concurrency
//
// Readers, writers and decoders belong to one goroutine each. I/O happens only through the
// io.Reader and io.Writer of the caller.
package pcap
