package transmit

import (
	"math/rand/v2"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/edge"
)

// Route is how the packets of a path leave by a [Sender]: a link's state of a edge.Path. Paths that
// do not differ in any of it share it, so that their packets can share datagrams.
type Route struct {
	ICRC ICRC
	FD   int // of the socket
	Lane int // of the socket among those of the link
	// Errors says that the socket hears ICMP: an error may be about an earlier datagram.
	Errors bool
	// Limit is the most bytes of UDP payload of a datagram, Most those of a packet. Only a Sender
	// with Admit uses Most.
	Limit, Most int
	// Front is how many bytes of headers precede the UDP payload, for Own to write.
	Front int
	Own   Own

	of   *Sender
	hash uint32
	sent uint64 // the batch in which Admit last accepted a packet
}

// Own is a link's part of a route.
type Own interface {
	// Fill fills in the header of a datagram with size bytes of UDP payload, to be cut into packets
	// of segment bytes, or 0 if it is one packet: the name, the front, and control messages, which
	// have as much room as Sends.Control says.
	Fill(h *unix.Msghdr, front, control []byte, size, segment int)
}

// Add makes r a route of the sender.
func (t *Sender) Add(r *Route) *Route {
	r.of, r.hash = t, rand.Uint32()
	return r
}

// RouteOf returns the route of a path; nil if nothing can be sent on it.
func (t *Sender) RouteOf(p *edge.Path) *Route {
	if r, ok := p.Link.(*Route); ok && r.of == t {
		return r
	}
	r := t.o.Route(p)
	if r != nil {
		p.Link = r
	}
	return r
}
