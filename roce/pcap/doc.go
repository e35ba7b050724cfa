// Package pcap reads and writes capture files, and finds the RoCE v2 packets in their
// frames.
//
// # Shape
//
// [Reader] reads pcap (micro- and nanoseconds, either byte order) and pcapng, frame by
// frame. [Decoder] takes a [Frame] apart: Ethernet, the two link types of tcpdump -i any
// (SLL, SLL2), raw IP, loopback; VLAN tags; IPv4 and IPv6; VXLAN and Geneve; UDP; and then
// the transport headers, into [Packet]s. A frame holds more than one where the capturing
// host segments later (UDP GSO) or has merged already (GRO): they are told apart by their
// headers and ICRCs. [Writer] writes a pcap file of frames as they were read, or of
// packets as raw IP.
//
// # Bad input
//
// Any bytes may come. A file that makes no sense from some place on gives a [*FormatError]
// with the offset; what came before is good. A frame without a RoCE v2 packet, or with one
// that makes no sense, is counted by its reason ([Decoder.Counts]). Nothing is allocated
// by a length that the file merely claims: records are at most [MaxRecordBytes] long.
//
// # Concurrency
//
// Readers, writers and decoders belong to one goroutine each. There is no I/O here but
// by the io.Reader and io.Writer that the caller gives.
package pcap
