package grammar

import "github.com/goroce/goroce/ib"

// answer says something to what the target has asked.
func (s *Speaker) answer(c *Conn) {
	a := &c.asked[0]
	x := s.d.Byte()
	switch {
	case x < 8: // it has not come: send again from there
		s.nak(c, a.psn, ib.NAKSequence)
		if c.Selective && s.d.OneIn(2) { // and this is what has come behind it
			s.pk.Payload = s.kept(c)
			break
		}
		c.asked = c.asked[:0]
		c.heard = a.psn
	case x < 14 && a.op != ib.OpRead:
		s.nak(c, a.psn, ib.RNRNAK(ib.RNRCode(1+s.d.N(31))))
		c.heard = a.psn
		c.asked = c.asked[:0]
	case x == 14 && s.d.OneIn(8):
		s.nak(c, a.psn, [...]ib.Syndrome{ib.NAKInvalidRequest, ib.NAKRemoteAccess, ib.NAKRemoteOperation}[s.d.N(3)])
		c.asked = c.asked[:0]
	case a.op == ib.OpRead:
		s.data(c, a)
	case a.op == ib.OpCompareSwap, a.op == ib.OpFetchAdd:
		c.msn = c.msn.Next()
		p := s.begin(c, ib.RCAtomicAck, a.psn, 0)
		p.AETH, p.AtomicAck = s.aeth(c), s.d.U64()
		c.answered(1)
	case a.op == ib.OpFlush, a.op == ib.OpAtomicWrite:
		c.msn = c.msn.Next()
		s.begin(c, ib.RCReadRespOnly, a.psn, 0).AETH = s.aeth(c)
		c.answered(1)
	default:
		s.ack(c)
	}
}

// kept is a map of what has come behind what is missing: mostly of what was sent.
func (s *Speaker) kept(c *Conn) []byte {
	m := s.keptMap[:4*(1+s.d.N(len(s.keptMap)/4))]
	clear(m)
	for _, a := range c.asked[1:] {
		if i := a.psn.Diff(c.asked[0].psn) - 1; s.d.OneIn(2) && i >= 0 && i < 8*len(m) {
			m[i/8] |= 0x80 >> (i % 8)
		}
	}
	if s.d.OneIn(16) {
		m[s.d.N(len(m))] = s.d.Byte()
	}
	return m
}

func (c *Conn) answered(n int) { c.asked = append(c.asked[:0], c.asked[n:]...) }

// aeth is an acknowledgement of all so far, with or without credits.
func (s *Speaker) aeth(c *Conn) ib.AETH {
	y := ib.ACKNoCredits
	if s.d.OneIn(4) {
		y = ib.ACKCredit(ib.CreditCode(s.d.N(32)))
	}
	return ib.AETH{Syndrome: y, MSN: c.msn}
}

// ack acknowledges some of what waits, up to the next one that has an answer of its own.
func (s *Speaker) ack(c *Conn) {
	n, most := 0, 1+s.d.N(len(c.asked))
	psn := c.asked[0].psn
	for n < most && n < len(c.asked) {
		a := &c.asked[n]
		if a.op != ib.OpSend && a.op != ib.OpWrite {
			break
		}
		if psn = a.psn; a.last {
			c.msn = c.msn.Next()
		}
		n++
	}
	s.begin(c, ib.RCAcknowledge, psn, 0).AETH = s.aeth(c)
	c.answered(n)
}

// nak refuses. The MSN is that of what was answered.
func (s *Speaker) nak(c *Conn, psn ib.PSN, y ib.Syndrome) {
	s.begin(c, ib.RCAcknowledge, psn, 0).AETH = ib.AETH{Syndrome: y, MSN: c.msn}
}

// data says the next packet of the answer to a READ.
func (s *Speaker) data(c *Conn, a *asked) {
	if a.done == 0 {
		c.msn = c.msn.Next()
	}
	n := min(a.len-a.done, c.MTU)
	psn := a.psn.Add(a.done / c.MTU)
	first, last := a.done == 0, a.done+n >= a.len
	op := ib.RCReadRespMiddle
	switch {
	case first && last:
		op = ib.RCReadRespOnly
	case first:
		op = ib.RCReadRespFirst
	case last:
		op = ib.RCReadRespLast
	}
	s.begin(c, op, psn, n).AETH = s.aeth(c)
	if a.done += n; last {
		c.answered(1)
	}
}
