package udp

import "github.com/goroce/goroce/ib"

const (
	// maxDatagram4 and maxDatagram6 bound the UDP payload of one send, segmented
	// or not, in bytes: a 16-bit length less the headers.
	maxDatagram4 = 65535 - ib.IPv4HeaderBytes - ib.UDPHeaderBytes
	maxDatagram6 = 65535 - ib.IPv6HeaderBytes - ib.UDPHeaderBytes

	// asideTurns is how many receives there are for one that looks for requests and packets handed
	// on by others, when no poll has said that there are any.
	asideTurns = 64

	// sendPorts is how many source ports packets from an address leave by, besides 4791. Each is a
	// socket, and packets that leave by different ones do not share a system call.
	sendPorts = 4
	// maxPortTries is how many ports are tried for each.
	maxPortTries = 8

	// maxPaths is how many kinds of paths a link remembers, so that others can share them: peers,
	// in practice, by the ports. Beyond that it begins anew.
	maxPaths = 4096

	// returnedBuffer is for ICMP messages about datagrams to queue pair 1, in bytes, and
	// maxReturned how many of other kinds are passed over at a time.
	returnedBuffer = 64 << 10
	maxReturned    = 64

	// rxBufferBytes holds the longest datagram.
	rxBufferBytes = 64 << 10

	// defaultSocketBuffer is what is asked for, in bytes.
	defaultSocketBuffer = 16 << 20

	// defaultTTL is the hop limit of the sockets.
	defaultTTL = 64
)
