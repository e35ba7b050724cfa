package transport

// Networks spread load by the UDP source port (ECMP, RSS), and what leaves by different ports cannot share a
// datagram. Connections with short messages gain much by sharing and nothing by being
// spread; with long ones it is the other way round. So a connection is light at first ([Path.Light]), and links that
// gather packets send what is light from one port. One that carries much leaves the others, for good.
//
// IBTA A17.9.1 keeps a queue pair to one port, as the packets of one may not overtake each other. So it leaves when
// nothing of it is on its way, before its first long message. If there is always something, it
// leaves all the same, once it has sent enough: should packets overtake each other then, which
// takes a network with several paths, the peer asks for them again.

const (
	// longMessage is the length from which on a message fills datagrams by itself, or nearly.
	longMessage = 16 << 10
	// lightBytes are the bytes in long messages that one may send while something is always on its way.
	lightBytes = 1 << 20
)

// carry notes that n bytes in one message, or in the answer to a READ, are going to be sent. idle
// says that nothing that was sent before may still be on its way.
func (qp *QP) carry(n uint32, idle bool) {
	if !qp.path.Light || n < longMessage {
		return
	}
	if qp.carried += min(n, lightBytes); idle || qp.carried >= lightBytes {
		qp.carried = lightBytes
		qp.path.Light, qp.path.Link = false, nil
	}
}
