package sim

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/internal/slots"
	"github.com/goroce/goroce/roce/link"
)

// node is what the links at the same addresses share: a pipe to the switch and a pipe from it. Each
// link has a slot, as on a real host, and gets the packets of that slot. Packets for a slot without
// a link, and requests, which name no slot, go to the first link.
type node struct {
	f     *Fabric
	addrs []netip.Addr

	// under f.mu
	up, down pipeState
	links    [slots.Count]*Link // by slot
}

// newLink makes a link of the host. mu is held.
func (h *node) newLink(slot int) *Link {
	l := &Link{node: h, slot: ib.Slot{Index: uint8(slot), Bits: slots.Bits}, verifier: link.NewVerifier(ib.UDPPort)}
	h.links[slot] = l
	return l
}

// Another attaches one more link to the host, at the same addresses, for the queue pairs of another
// slot: see [link.Slotted].
func (l *Link) Another() (link.Link, error) {
	f := l.f
	f.lock()
	defer f.mu.Unlock()
	if l.closed {
		return nil, link.ErrClosed
	}
	// As on a real host, where half of the slots are reserved for devices without one.
	slot := slices.Index(l.links[slots.FirstSpare:], nil)
	if slot < 0 {
		return nil, fmt.Errorf("sim: %v has no slot left", l.addrs)
	}
	return l.newLink(slots.FirstSpare + slot), nil
}

// ServeRequests does nothing: requests go to the first link.
func (l *Link) ServeRequests() error { return nil }

// Announce does nothing: no one else has the addresses of a host.
func (l *Link) Announce(mad.ServiceID, netip.Addr) error { return nil }

// Withdraw does nothing.
func (l *Link) Withdraw(mad.ServiceID, netip.Addr) {}

// first returns the link with the lowest slot; nil if there is none.
func (h *node) first() *Link {
	for _, l := range h.links {
		if l != nil {
			return l
		}
	}
	return nil
}

// linkFor returns the link that a packet is for; nil if there is none.
func (h *node) linkFor(p *packet) *Link {
	if to := slots.Steer(p.data); to != slots.Requests && h.links[to] != nil {
		return h.links[to]
	}
	return h.first()
}

// joined reports whether a link of the host has joined a group. mu is held.
func (h *node) joined(members map[*Link]int) bool {
	return slices.ContainsFunc(h.links[:], func(l *Link) bool { return members[l] > 0 })
}

// leave removes a link, and the host if it was the last. mu is held.
func (h *node) leave(l *Link) {
	f := h.f
	h.links[l.slot.Index] = nil
	for _, m := range f.groups {
		delete(m, l)
	}
	if h.first() != nil {
		return
	}
	for _, a := range h.addrs {
		delete(f.hosts, a)
		f.left[a] = true
	}
	f.order = slices.DeleteFunc(f.order, func(o *node) bool { return o == h })
}
