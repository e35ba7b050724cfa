package grammar

import "github.com/goroce/goroce/ib"

// Hear takes what the target has sent: from the BTH to the ICRC. It returns the packet, and false
// if it is none.
func (s *Speaker) Hear(data []byte) (*ib.Packet, bool) {
	p := &s.pk
	if p.Decode(data) != ib.DecodeOK {
		return nil, false
	}
	if s.CM != nil && p.DestQP == 1 {
		s.CM.hear(p.Payload)
		return p, true
	}
	for _, c := range s.Conns {
		if c.Own == p.DestQP {
			c.hear(p)
			break
		}
	}
	return p, true
}

func (c *Conn) hear(p *ib.Packet) {
	info := p.Opcode.Info()
	switch {
	case c.Type != ib.RC || p.Opcode == ib.CNP:
	case info.Op == ib.OpAcknowledge:
		switch p.AETH.Syndrome.Kind() {
		case ib.SyndromeNAK:
			if p.AETH.Syndrome != ib.NAKSequence {
				c.Dead = true
				return
			}
			c.back(p.PSN)
		case ib.SyndromeRNR:
			c.back(p.PSN)
		}
	case !info.Response:
		c.request(p, info)
	case info.Pos&ib.Last != 0 && len(c.open) > 0:
		c.open = append(c.open[:0], c.open[1:]...)
	}
}

// back goes back to a request, as one does that was refused. What had begun is not gone on with:
// the target decides whether that is a new message.
func (c *Conn) back(to ib.PSN) {
	if !to.After(c.Next) {
		c.Next, c.message = to, message{}
		for len(c.open) > 0 && !c.open[len(c.open)-1].Before(to) {
			c.open = c.open[:len(c.open)-1]
		}
	}
}

// request notes what the target asks for.
func (c *Conn) request(p *ib.Packet, info *ib.OpcodeInfo) {
	if d := p.PSN.Diff(c.heard); d < 0 {
		// Again: from there on, as one does that has lost it.
		for i := range c.asked {
			if !c.asked[i].psn.Before(p.PSN) {
				c.asked = c.asked[:i]
				break
			}
		}
	} else if d > 0 {
		return // a gap
	}
	n := 1
	a := asked{op: info.Op, psn: p.PSN, last: info.Pos&ib.Last != 0}
	if info.Op == ib.OpRead {
		a.len = int(p.RETH.Len)
		n = max(1, (a.len+c.MTU-1)/c.MTU)
	}
	c.heard = p.PSN.Add(n)
	if len(c.asked) < mostAsked {
		c.asked = append(c.asked, a)
	}
}
