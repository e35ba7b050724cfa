package grammar

import "github.com/goroce/goroce/ib"

// classOf is what an opcode of RC is for a transport.
func classOf(op ib.Opcode, t ib.Transport) ib.Opcode {
	switch t {
	case ib.UC:
		return op | 0x20
	case ib.UD:
		return op | 0x60
	}
	return op
}

// request says the next packet of a message, or begins one.
func (s *Speaker) request(c *Conn) {
	if c.message.left > 0 {
		s.goOn(c)
		return
	}
	if c.Type == ib.UD {
		s.datagram(c)
		return
	}
	kinds := 12
	if c.Type == ib.UC {
		kinds = 6
	}
	k := s.d.N(kinds)
	if k >= 6 && k != 11 && len(c.open) >= c.Depth {
		k -= 6
	}
	switch k {
	case 0, 1, 2:
		s.start(c, ib.OpSend)
	case 3, 4, 5:
		s.start(c, ib.OpWrite)
	case 6, 7, 8:
		s.read(c)
	case 9:
		s.atomic(c)
	case 10:
		s.atomicWrite(c)
	case 11:
		if s.d.OneIn(3) {
			s.notify(c)
			return
		}
		s.flush(c)
	}
}

// size is how long a message is: mostly one packet or two.
func (s *Speaker) size(mtu int) int {
	switch x := s.d.Byte(); {
	case x < 16:
		return 0
	case x < 120:
		return 1 + s.d.N(64)
	case x < 140:
		return mtu
	case x < 190:
		return 1 + s.d.N(mtu)
	case x < 250:
		return 1 + s.d.N(5*mtu)
	}
	return 1 + s.d.N(40*mtu)
}

// careless is how seldom memory is used for what it is not for.
const careless = 200

// span is a range of the target's memory of n bytes, or fewer, that may be used for something.
func (s *Speaker) span(n int, may func(*Memory) bool) (ib.RETH, int) {
	if len(s.Memory) == 0 {
		return ib.RETH{}, 0
	}
	at := s.d.N(len(s.Memory))
	m := &s.Memory[at]
	if !s.d.OneIn(careless) {
		for i := 0; i < len(s.Memory) && !may(m); i++ {
			m = &s.Memory[(at+i)%len(s.Memory)]
		}
	}
	n = min(n, m.Len)
	off := 0
	if m.Len > n {
		off = s.d.N(m.Len-n) &^ (1 << s.d.N(4))
	}
	return ib.RETH{VA: m.Addr + uint64(off), RKey: m.Key, Len: uint32(n)}, n
}

// start begins a SEND or WRITE.
func (s *Speaker) start(c *Conn, op ib.Operation) {
	n := s.size(c.MTU)
	var reth ib.RETH
	switch {
	case op == ib.OpWrite:
		reth, n = s.span(n, func(m *Memory) bool { return m.Write })
	case !s.d.OneIn(careless):
		n = min(n, c.MostSend)
	}
	if n > c.MTU {
		first := ib.RCSendFirst
		if op == ib.OpWrite {
			first = ib.RCWriteFirst
		}
		p := s.begin(c, classOf(first, c.Type), c.Next, c.MTU)
		p.RETH = reth
		p.AckReq = c.Type == ib.RC && s.d.OneIn(8)
		c.message = message{op, n - c.MTU}
	} else {
		s.end(c, op, n, true)
		s.pk.RETH = reth
	}
	c.Next = c.Next.Next()
}

// goOn says the next packet of the message that has begun.
func (s *Speaker) goOn(c *Conn) {
	if c.message.left > c.MTU {
		mid := ib.RCSendMiddle
		if c.message.op == ib.OpWrite {
			mid = ib.RCWriteMiddle
		}
		s.begin(c, classOf(mid, c.Type), c.Next, c.MTU).AckReq = c.Type == ib.RC && s.d.OneIn(8)
		c.message.left -= c.MTU
	} else {
		s.end(c, c.message.op, c.message.left, false)
		c.message.left = 0
	}
	c.Next = c.Next.Next()
}

// end says a LAST, or an ONLY.
func (s *Speaker) end(c *Conn, op ib.Operation, n int, only bool) {
	kinds := 3 // plain, with immediate data, with invalidate
	if op == ib.OpWrite || c.Type != ib.RC {
		kinds = 2
	}
	k := s.d.N(4)
	if k >= kinds || k == 2 && !s.d.OneIn(careless) {
		k = 0
	}
	table := [2][2][3]ib.Opcode{
		{{ib.RCSendLast, ib.RCSendLastImm, ib.RCSendLastInv}, {ib.RCSendOnly, ib.RCSendOnlyImm, ib.RCSendOnlyInv}},
		{{ib.RCWriteLast, ib.RCWriteLastImm}, {ib.RCWriteOnly, ib.RCWriteOnlyImm}},
	}
	i, j := 0, 0
	if op == ib.OpWrite {
		i = 1
	}
	if only {
		j = 1
	}
	p := s.begin(c, classOf(table[i][j][k], c.Type), c.Next, n)
	p.AckReq, p.Solicited = c.Type == ib.RC && !s.d.OneIn(4), s.d.OneIn(4)
	p.ImmDt = 0x01020304
	if len(s.Memory) > 0 {
		p.IETH = s.Memory[s.d.N(len(s.Memory))].Key
	}
}

// datagram says a UD message.
func (s *Speaker) datagram(c *Conn) {
	op := ib.UDSendOnly
	if s.d.OneIn(3) {
		op = ib.UDSendOnlyImm
	}
	p := s.begin(c, op, c.Next, min(s.size(c.MTU), c.MTU))
	p.DETH = ib.DETH{QKey: c.QKey, SrcQP: c.Own}
	p.Solicited = s.d.OneIn(4)
	c.Next = c.Next.Next()
}

func (s *Speaker) read(c *Conn) {
	reth, n := s.span(s.size(c.MTU), func(m *Memory) bool { return m.Read })
	p := s.begin(c, ib.RCReadRequest, c.Next, 0)
	p.AckReq, p.RETH = true, reth
	c.open = append(c.open, c.Next)
	c.Next = c.Next.Add(max(1, (n+c.MTU-1)/c.MTU))
}

func (s *Speaker) atomic(c *Conn) {
	op := ib.RCFetchAdd
	if s.d.OneIn(2) {
		op = ib.RCCompareSwap
	}
	reth, _ := s.span(8, func(m *Memory) bool { return m.Atomic })
	p := s.begin(c, op, c.Next, 0)
	p.AckReq = true
	c.open = append(c.open, c.Next)
	p.Atomic = ib.AtomicETH{VA: reth.VA &^ 7, RKey: reth.RKey, SwapAdd: uint64(s.d.Byte()), Compare: uint64(s.d.Byte())}
	c.Next = c.Next.Next()
}

func (s *Speaker) atomicWrite(c *Conn) {
	reth, _ := s.span(8, func(m *Memory) bool { return m.Write })
	p := s.begin(c, ib.RCAtomicWrite, c.Next, 8)
	p.AckReq, p.RETH = true, reth
	c.open = append(c.open, c.Next)
	p.RETH.VA &^= 7
	c.Next = c.Next.Next()
}

func (s *Speaker) flush(c *Conn) {
	reth, _ := s.span(s.size(c.MTU), func(m *Memory) bool { return m.Flush })
	p := s.begin(c, ib.RCFlush, c.Next, 0)
	p.AckReq, p.RETH = true, reth
	p.FETH = ib.FlushGlobalVisibility
	switch {
	case s.d.OneIn(4):
		p.FETH |= ib.FlushMR
	case s.d.OneIn(careless):
		p.FETH = ib.FlushPersistence
	}
	c.open = append(c.open, c.Next)
	c.Next = c.Next.Next()
}

// notify says that the target's packets were marked.
func (s *Speaker) notify(c *Conn) {
	s.begin(c, ib.CNP, 0, 0)
	s.pk.BECN, s.pk.MigReq = true, false
}
