package cm

// Stale connections: a peer that uses a queue pair which is connected, as far as
// we know, has forgotten the connection (IBTA 12.9.8.3.1: refuse the new one, end
// the old one).

// askPeer asks the peer of an established connection whether it still knows it. A
// REQ says that it does not; but anybody can send a REQ in the name of the peer, so
// the specification's rule would let anybody end a connection. What is asked is
// a DREQ for a queue pair that is nobody's: a CM that knows the connection drops it,
// one that does not answers every DREQ, with both of our communication IDs (Linux and
// this package do both). The answer ends the connection, see handleDREP; a peer
// that is silent keeps it. Lost questions are asked again with the peer's next
// REQ, and never faster than messages are repeated.
func (c *Conn) askPeer(now int64) {
	a := c.a
	a.stats.StaleClaims++
	if c.state != Established || c.asked && now-c.askedNs < a.cfg.RetryNs {
		return
	}
	c.ask(now)
}

// forgotten ends a connection whose peer has shown that it forgot it, in a way that
// nobody else can.
func (c *Conn) forgotten(now int64) {
	c.a.stats.Stale++
	if n := c.node; c.state == Established {
		c.disconnected(now, Event{Gone: true})
		n.askOthers(now)
	}
}
