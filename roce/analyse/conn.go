package analyse

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// flowKey names the packets from one address to a queue pair.
type flowKey struct {
	src, dst netip.Addr
	qpn      ib.QPN
}

// flow is where the packets of a flowKey belong: sent by end side of c.
type flow struct {
	c    *conn
	side int
}

type pairKey struct{ src, dst netip.Addr }

type waitKey struct {
	pairKey
	psn ib.PSN
}

// conn is a connection under way.
type conn struct {
	id        int
	merged    *conn
	transport ib.Transport
	cmOnly    bool
	ends      [2]Endpoint
	port      [2]uint16 // UDP source ports
	first     int64
	last      int64
	packets   int
	mtu       int
	way       [2]*half // requests of end i
	seen      [2]bool  // packets of end i were captured
	ex        *exchange
	closed    bool // RDMA-CM has taken it down
	closedAt  int64
	closedBy  int // frame of the first DREQ
	number    int
}

// newConn makes a connection whose end 0 is src.
func (a *Analyser) newConn(p *pcap.Packet, t ib.Transport) *conn {
	c := &conn{id: len(a.conns) + 1, transport: t, first: p.AtNs, last: p.AtNs}
	c.ends = [2]Endpoint{{Addr: p.Flow.Src}, {Addr: p.Flow.Dst, QPN: p.DestQP, Known: true}}
	if len(a.conns) >= a.opt.MaxConnections {
		a.moreConns++
		return nil
	}
	for i := range c.way {
		h := &half{a: a, c: c, side: i, sent: window{a: a}, answers: window{a: a}}
		if a.opt.Conduct != nil && t == ib.RC {
			h.conduct = &conduct{a: a, h: h}
		}
		c.way[i] = h
	}
	a.conns = append(a.conns, c)
	return c
}

// touch counts a packet of end side.
func (c *conn) touch(p *pcap.Packet, side int) {
	if c.packets == 0 {
		c.first = p.AtNs
	}
	c.packets++
	c.last = max(c.last, p.AtNs)
	c.seen[side] = true
	c.port[side] = p.Flow.SrcPort
}

// place finds the connection of a flow that is new.
func (a *Analyser) place(p *pcap.Packet, info *ib.OpcodeInfo, key flowKey) (flow, bool) {
	if info.Response {
		if c := a.answered(p); c != nil {
			c.ends[0].QPN, c.ends[0].Known = p.DestQP, true
			a.settled(c)
			return flow{c, 1}, true
		}
	}
	c := a.newConn(p, info.Transport)
	if c == nil {
		return flow{}, false
	}
	k := pairKey{key.src, key.dst}
	if l := a.unpaired[k]; len(l) < maxUnpaired {
		a.unpaired[k] = append(l, c)
	}
	return flow{c, 0}, true
}

const (
	maxUnpaired   = 64
	maxWaiting    = 1 << 16
	maxCandidates = 4
)

// pair finds the other flow of a connection of which one is known, and puts the two together.
func (a *Analyser) pair(c *conn, p *pcap.Packet, info *ib.OpcodeInfo) *conn {
	if info.Transport != ib.RC {
		return c
	}
	if !info.Response {
		// Its answer will tell.
		k := waitKey{pairKey{p.Flow.Src, p.Flow.Dst}, p.PSN}
		if len(a.waiting) >= maxWaiting {
			clear(a.waiting)
		}
		l := a.waiting[k]
		for _, o := range l {
			if o == c {
				return c
			}
		}
		if len(l) >= maxCandidates {
			l = l[1:]
		}
		a.waiting[k] = append(l, c)
		return c
	}
	o := a.answered(p)
	if o == nil || o == c {
		return c
	}
	// c has the packets of end 1 of o.
	o.ends[0].QPN, o.ends[0].Known = p.DestQP, true
	a.settled(o)
	w := c.way[0]
	w.c, w.side = o, 1
	o.way[1] = w
	o.first, o.last = min(o.first, c.first), max(o.last, c.last)
	o.packets += c.packets
	if o.mtu == 0 {
		o.mtu = c.mtu
	}
	c.merged = o
	a.settled(c)
	a.flows[flowKey{p.Flow.Src, p.Flow.Dst, p.DestQP}] = flow{o, 1}
	return o
}

// answered finds a connection of which only the requests are known and that p, an answer,
// may belong to.
func (a *Analyser) answered(p *pcap.Packet) *conn {
	var best *conn
	score := -1
	consider := func(c *conn) {
		a.steps++
		if c.merged != nil || c.ends[0].Known {
			return
		}
		s := 0
		if c.port[0] == p.Flow.SrcPort {
			s = 1
		}
		if s >= score {
			best, score = c, s
		}
	}
	pair := pairKey{p.Flow.Dst, p.Flow.Src}
	for _, c := range a.waiting[waitKey{pair, p.PSN}] {
		consider(c)
	}
	if best != nil {
		return best
	}
	slack := 0
	if p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome == ib.NAKSequence {
		slack = keepBehind // what it asks for was lost before the first packet of the capture
	}
	for _, c := range a.unpaired[pair] {
		if w := c.way[0]; w.begun && p.PSN.Diff(w.first) >= -slack && p.PSN.Diff(w.next) <= 0 {
			consider(c)
		}
	}
	return best
}

// settled takes a connection off the lists of those that look for their other flow.
func (a *Analyser) settled(c *conn) {
	k := pairKey{c.ends[0].Addr, c.ends[1].Addr}
	l := a.unpaired[k]
	for i, o := range l {
		if o == c {
			l = append(l[:i:i], l[i+1:]...)
			break
		}
	}
	if len(l) == 0 {
		delete(a.unpaired, k)
	} else {
		a.unpaired[k] = l
	}
}
