package transmit

import (
	"math/rand/v2"

	"github.com/goroce/goroce/internal/unix"
	"github.com/goroce/goroce/transport/wire"
)

// Route is where the packets of a path go by a [Sender]: what a link hangs on a wire.Path. Paths
// that do not differ in anything here share it, so that their packets can share datagrams.
type Route struct {
	ICRC ICRC
	FD   int // of the socket
	Lane int // of the socket among those of the link
	// Errors says that the socket hears of ICMP: an error may be about an earlier datagram.
	Errors bool
	// Limit is the most bytes of UDP payload of a datagram, Most those of a packet. Only a Sender
	// with Admit heeds Most.
	Limit, Most int
	// Front is how many bytes of headers there are before the UDP payload, for Own to write.
	Front int
	Own   Own

	of   *Sender
	hash uint32
	sent uint64 // the batch in which something was found to be able to go
}

// Own is what a link has of a route.
type Own interface {
	// Fill fills in the header of a datagram with size bytes of UDP payload, to be cut into
	// packets of segment bytes, 0 if it is one: the name, the front, and control messages, for
	// which there is as much room as the Sender was told.
	Fill(h *unix.Msghdr, front, control []byte, size, segment int)
}

// Add makes r a route of the sender.
func (t *Sender) Add(r *Route) *Route {
	r.of, r.hash = t, rand.Uint32()
	return r
}

// RouteOf returns the route of a path, nil if nothing can be sent on it.
func (t *Sender) RouteOf(p *wire.Path) *Route {
	if r, ok := p.Link.(*Route); ok && r.of == t {
		return r
	}
	r := t.o.Route(p)
	if r != nil {
		p.Link = r
	}
	return r
}
