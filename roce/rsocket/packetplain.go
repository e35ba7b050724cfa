package rsocket

import (
	"net/netip"
	"time"
)

// A program that thinks it is on UDP also has peers that know nothing of this protocol. They take
// the header before the first datagram for a part of it: they answer nonsense, or nothing.

// SpeakPlain makes the socket speak UDP without headers with such peers: those that send so, and
// those that do not answer.
func (c packetCore) SpeakPlain() {
	c.mu.Lock()
	c.plain = true
	c.mu.Unlock()
}

// plainPeer is what a socket that speaks plain UDP knows of a peer beside its queue pair.
type plainPeer struct {
	sure  bool      // it has sent without a header
	first time.Time // of the questions without an answer; zero: there are none
	last  time.Time
	data  []byte // of the last question
}

// A peer of this protocol answers within plainSilence. One that does not is asked again after
// plainRepeat, beside what it gets without a header, since it may have begun later.
const (
	plainSilence = 100 * time.Millisecond
	plainRepeat  = time.Second
)

// servedPlain handles a message without a header. mu is held.
func (c *PacketConn) servedPlain(b []byte, from netip.AddrPort, to netip.Addr) {
	p := c.peers.find(from)
	if p == nil {
		var err error
		if p, err = c.newPeer(from, to); err != nil {
			c.stats.Malformed++
			return
		}
	}
	p.forget() // another program has the port now
	asked := p.plain.data
	p.plain = plainPeer{sure: true}
	switch {
	case asked != nil:
		_ = c.sendPlain(p, asked) // the answer was to the header
	case len(b) > slotBytes:
		c.stats.Malformed++
	default:
		c.keep(from, b)
	}
}

// putPlain sends a datagram to a peer whose queue pair is unknown. mu is held.
func (c *PacketConn) putPlain(p *packetPeer, data []byte) error {
	if p.plain.sure {
		return c.sendPlain(p, data)
	}
	now := time.Now()
	silent := !p.plain.first.IsZero() && now.Sub(p.plain.first) >= plainSilence
	if silent {
		if err := c.sendPlain(p, data); err != nil || now.Sub(p.plain.last) < plainRepeat {
			return err
		}
	}
	if p.plain.last = now; p.plain.first.IsZero() {
		p.plain.first = now
	}
	if !silent {
		p.plain.data = append(p.plain.data[:0], data...)
	}
	return c.ask(p, data)
}

func (c *PacketConn) sendPlain(p *packetPeer, data []byte) error {
	err := c.service.send(data, p.addr, p.queue.addr.Addr())
	if err == nil {
		c.stats.Sent++
	}
	return err
}
