package rsocket

import (
	"errors"
	"net"
	"net/netip"
	"slices"
)

// serve handles messages to the UDP port. Anyone can send there.
func (c *PacketConn) serve() {
	defer close(c.served)
	b, oob := make([]byte, slotBytes+1), make([]byte, 128) // an extra byte reveals messages that are too long
	for failures := 0; ; {
		n, from, to, err := c.service.receive(b, oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			failures++
			if !c.refusedBy(err, failures) {
				return
			}
			continue
		}
		failures = 0
		c.mu.Lock()
		c.served1(b[:n], from, to)
		c.mu.Unlock()
	}
}

// maxFailures in a row mean that the socket does not work.
const maxFailures = 64

// refusedBy records the kernel's report about an earlier message, for the next call. It returns
// false if the socket cannot be used any more.
func (c *PacketConn) refusedBy(err error, failures int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if failures >= maxFailures {
		c.fail(err)
		return false
	}
	c.told = err
	c.event()
	return true
}

// served1 handles a message from the UDP port; to is the local address that it came to. mu is held.
func (c *PacketConn) served1(b []byte, from netip.AddrPort, to netip.Addr) {
	m, ok := parseService(b)
	switch {
	case c.usable() != nil:
		return
	case !ok && !c.plain || from.Port() == 0:
		c.stats.Malformed++
		return
	case c.remote.IsValid() && from != c.remote: // it was sent before the socket was connected
		c.stats.Foreign++
		return
	case !ok:
		c.servedPlain(b, from, to)
		return
	}
	p := c.peers.find(from)
	if m.op == opCtrl {
		if p == nil {
			c.stats.Malformed++ // not an answer to a question of ours
			return
		}
		p.learn(m.qpn)
		return
	}
	if p == nil {
		var err error
		if p, err = c.newPeer(from, to); err != nil {
			c.stats.Malformed++ // we have no device at the address it was sent to
			return
		}
	}
	// The peer uses its queue pair once it knows ours.
	_ = c.say(opCtrl, p, nil)
	p.learn(m.qpn)
	c.keep(from, m.data)
}

// keep keeps a datagram from the UDP port for the application. mu is held.
func (c *PacketConn) keep(from netip.AddrPort, data []byte) {
	if c.kept >= c.cfg.RecvQueue {
		c.stats.Overflow++
		return
	}
	c.kept++
	c.stats.Received++
	c.ready = append(c.ready, datagram{from: from, data: slices.Clone(data)})
	c.event()
}

// say sends a message to the UDP port of a peer. mu is held.
func (c *PacketConn) say(o op, p *packetPeer, data []byte) error {
	m := serviceMessage{op: o, qpn: p.queue.qp.Num(), addr: p.queue.addr.Addr().WithZone(""), data: data}
	c.out = m.append(c.out[:0])
	return c.service.send(c.out, p.addr, p.queue.addr.Addr())
}
