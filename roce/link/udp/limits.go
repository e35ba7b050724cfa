package udp

import "github.com/goroce/goroce/ib"

const (
	// maxDatagram4 and maxDatagram6 bound the UDP payload of one send, segmented
	// or not, in bytes: a 16-bit length less the headers.
	maxDatagram4 = 65535 - ib.IPv4HeaderBytes - ib.UDPHeaderBytes
	maxDatagram6 = 65535 - ib.IPv6HeaderBytes - ib.UDPHeaderBytes

	// asideTurns is how many receives there are for each look for requests, and for packets handed
	// on by others, when no poll has announced any.
	asideTurns = 64

	// sendPorts is the number of source ports of an address besides 4791. Each is a socket, and
	// packets by different ones cannot share a system call.
	sendPorts = 4
	// maxPortTries is how many ports are tried for each.
	maxPortTries = 8

	// maxPaths is how many kinds of paths a link remembers for sharing, which in practice is peers
	// times ports. Beyond that it starts over.
	maxPaths = 4096

	// returnedBuffer is the buffer for ICMP messages about datagrams to queue pair 1, in bytes;
	// maxReturned is how many messages of other kinds are skipped at a time.
	returnedBuffer = 64 << 10
	maxReturned    = 64

	// rxBufferBytes holds the longest datagram.
	rxBufferBytes = 64 << 10

	// defaultSocketBuffer is the size to ask for, in bytes.
	defaultSocketBuffer = 16 << 20

	// defaultTTL is the hop limit of the sockets.
	defaultTTL = 64
)
