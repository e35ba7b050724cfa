package udp

import "github.com/goroce/goroce/ib"

const (
	// maxDatagram4 and maxDatagram6 bound the UDP payload of one send, segmented
	// or not, in bytes: a 16-bit length less the headers.
	maxDatagram4 = 65535 - ib.IPv4HeaderBytes - ib.UDPHeaderBytes
	maxDatagram6 = 65535 - ib.IPv6HeaderBytes - ib.UDPHeaderBytes

	// backlogBytes bounds what waits for the socket to take more.
	backlogBytes = 4 << 20

	// rxBufferBytes holds the longest datagram.
	rxBufferBytes = 64 << 10

	// defaultSocketBuffer is what is asked for, in bytes.
	defaultSocketBuffer = 16 << 20

	// defaultTTL is the hop limit of the sockets.
	defaultTTL = 64
)
