package transport

// Networks spread load by the UDP source port (ECMP, RSS), and packets of different ports share no
// datagram. Short messages gain from sharing, long ones from being spread. So a connection is light
// at first ([Path.Light]), and links that gather packets send all light ones from one port. A
// connection that carries much leaves that port for good.
//
// IBTA A17.9.1 keeps a queue pair to one port, as its packets must not overtake each other. So it
// moves before its first long message with nothing in flight, or anyway once it has sent enough: if
// packets then overtake each other, which takes a network with several paths, the peer requests
// them again.

const (
	// longMessage is the least length of messages that nearly fill datagrams by themselves.
	longMessage = 16 << 10
	// lightBytes is how many bytes in long messages a QP may send before it moves anyway.
	lightBytes = 1 << 20
)

// carry notes that n bytes in one message, or in the answer to a READ, will be sent. idle says that
// nothing sent before may still be in flight.
func (qp *QP) carry(n uint32, idle bool) {
	if !qp.path.Light || n < longMessage {
		return
	}
	if qp.carried += min(n, lightBytes); idle || qp.carried >= lightBytes {
		qp.carried = lightBytes
		qp.path.Light, qp.path.Link = false, nil
	}
}
