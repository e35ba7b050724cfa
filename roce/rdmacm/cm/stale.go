package cm

// Stale connections: a peer that reuses a queue pair which is still connected, as far as we know,
// has forgotten the connection (IBTA 12.9.8.3.1: refuse the new one, end the old one).

// askPeer asks the peer of an established connection whether it still knows it. A REQ suggests that
// it does not; but anyone can send a REQ in the name of the peer, so the specification's rule would
// let anyone end a connection. The question is a DREQ for a queue pair that does not exist: a CM
// that knows the connection drops it; one that does not answers every DREQ, with both of our
// communication IDs (Linux and this package do both). The answer ends the connection, see
// handleDREP; a silent peer keeps it. A lost question is asked again with the peer's next REQ, at
// most as often as messages are repeated.
func (c *Conn) askPeer(now int64) {
	a := c.a
	a.stats.StaleClaims++
	if c.state != Established || c.asked && now-c.askedNs < a.cfg.RetryNs {
		return
	}
	c.ask(now)
}

// forgotten ends a connection whose peer has shown, in a way that cannot be forged, that it forgot
// it.
func (c *Conn) forgotten(now int64) {
	c.a.stats.Stale++
	if n := c.node; c.state == Established {
		c.disconnected(now, Event{Gone: true})
		n.askOthers(now)
	}
}
