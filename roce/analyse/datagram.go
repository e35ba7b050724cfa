package analyse

import (
	"fmt"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// datagramKey names the datagrams between two queue pairs, either way.
type datagramKey struct {
	a, b   netip.Addr
	qa, qb ib.QPN
}

// datagrams follows the PSNs of one queue pair's datagrams to another: UD counts them up, over all
// that the queue pair sends to.
type datagrams struct {
	begun bool
	next  ib.PSN
	run   int // how many came one after the other without a gap
	gaps  []gap
	last  ib.PSN
	at    int64
	frame int
	ident uint16
}

// handleDatagram handles a packet of UD.
func (a *Analyser) handleDatagram(p *pcap.Packet, bad bool) Note {
	n := Note{Role: RoleDatagram}
	if bad {
		return n
	}
	key := datagramKey{p.Flow.Src, p.Flow.Dst, p.DETH.SrcQP, p.DestQP}
	c, side := a.datagrams[key], 0
	if c == nil {
		if c = a.datagrams[datagramKey{key.b, key.a, key.qb, key.qa}]; c != nil {
			side = 1
		}
	}
	if c == nil {
		if c = a.newConn(p, ib.UD); c == nil {
			return n
		}
		c.ends[0].QPN, c.ends[0].Known = p.DETH.SrcQP, true
		a.datagrams[key] = c
	}
	c.touch(p, side)
	n.Connection, n.End = c.id, side
	if p.CE() {
		c.congested(p, side)
	}
	h := c.way[side]
	h.packets++
	h.payload += int64(p.PayloadBytes)
	if h.firstAt == 0 {
		h.firstAt = p.AtNs
	}
	h.lastDone, h.lastReqAt = p.AtNs, p.AtNs
	o := h.count(opName(p.Opcode))
	o.Begun++
	o.Completed++
	o.Bytes += int64(p.PayloadBytes)
	h.datagram(p, &n)
	return n
}

// steady is how many datagrams in a row make it likely that the queue pair sends to one destination
// only.
const steady = 3

// datagram looks at the PSN of a datagram.
func (h *half) datagram(p *pcap.Packet, n *Note) {
	u := &h.udp
	if !u.begun {
		*u = datagrams{begun: true, next: p.PSN.Next(), run: 1}
		u.last, u.at, u.frame, u.ident = p.PSN, p.AtNs, p.Frame, p.Ident
		return
	}
	defer func() { u.last, u.at, u.frame, u.ident = p.PSN, p.AtNs, p.Frame, p.Ident }()
	d := p.PSN.Diff(u.next)
	switch {
	case d == 0:
		u.next = p.PSN.Next()
		u.run++
	case d > 0 && d < restart:
		if u.run >= steady && d < 1000 {
			g := gap{from: u.next, to: p.PSN, frame: p.Frame, at: p.AtNs}
			g.find = h.find(UDLost, g.from, p.Frame)
			g.find.Certain = false
			missing := d
			this := see(p)
			g.find.what = func(f *Finding) string {
				return fmt.Sprintf("%s of %s (PSN %d%s)%s missing before packet %d. Unless the queue pair sent these to somebody else, they were lost.",
					packets(missing), h.requester(), g.from, upTo(g.from, missing), isAre(missing), this.Frame)
			}
			u.gaps = append(u.gaps, g)
			if len(u.gaps) > maxGaps {
				u.gaps = u.gaps[maxGaps/2:]
			}
		}
		u.next = p.PSN.Next()
		u.run = 1
	case d < 0 && d > -restart:
		n.Late = true
		if p.PSN == u.last && p.AtNs-u.at < doubledNs {
			was := u.frame
			f := h.find(DuplicateRequest, p.PSN, p.Frame, was)
			this := see(p)
			f.what = func(*Finding) string {
				return fmt.Sprintf("Packet %d is the datagram of packet %d once more (PSN %d): the network has doubled it, and UD delivers both.",
					this.Frame, was, this.PSN)
			}
			n.Cause = CauseNetwork
			return
		}
		for i := range u.gaps {
			h.a.steps++
			g := &u.gaps[i]
			if p.PSN.Diff(g.from) < 0 || p.PSN.Diff(g.to) >= 0 || g.find == nil || g.to.Diff(g.from) != 1 {
				continue
			}
			f := g.find
			f.is(Reordered)
			f.Frames = nil
			f.add(p.Frame)
			f.add(g.frame)
			over := g.frame
			this := see(p)
			f.what = func(*Finding) string {
				return fmt.Sprintf("The datagram in packet %d (PSN %d) was overtaken by packet %d.",
					this.Frame, this.PSN, over)
			}
			g.find = nil
			return
		}
	default:
		*u = datagrams{begun: true, next: p.PSN.Next(), run: 1}
	}
}

func isAre(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}
