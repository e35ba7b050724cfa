// Package capture reads and writes capture files, and takes the packets in them apart, for
// tests: [Reader], [Parse], [Write]; and it builds frames, wrong ones too ([Frame]).
//
// All of it is done by gopacket, which knows nothing of this project: what a test finds
// here is what an independent decoder takes a packet for. Only this package and roce/layers
// import gopacket.
//
// # Concurrency
//
// A Reader belongs to one goroutine. A Packet may be read by any.
package capture
