package analyse

import (
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// host is what is known of an address.
type host struct {
	local        bool
	known        bool // whether local is
	right, wrong int  // ICRCs of packets that it sent
	held         []*Finding
	heard        int64 // last packet from it
	heardFrame   int
	refused      *Finding // ICMP says that it cannot be reached
}

// lastSeen is the last packet of a flow, to know one that is captured twice.
type lastSeen struct {
	psn    ib.PSN
	opcode ib.Opcode
	icrc   uint32
	iface  int
	dir    pcap.Direction
	ttl    uint8
	at     int64
}

// badPacket is a packet with a wrong ICRC.
type badPacket struct {
	frame int
	psn   ib.PSN
	find  *Finding
	used  bool
}

// belongs says what a damaged packet was, by the gap that it left: its own numbers may be what is
// damaged.
func (b *badPacket) belongs(c *conn, qpn ib.QPN, g *gap) {
	b.find.conn, b.find.QPN = c, qpn
	if b.psn.Diff(g.from) < 0 || b.psn.Diff(g.to) >= 0 {
		b.find.PSN = g.from
	}
}

// maxHosts bounds the addresses that are remembered.
const maxHosts = 1 << 16

func (a *Analyser) host(addr netip.Addr) *host {
	h := a.hosts[addr]
	if h == nil {
		h = &host{}
		if len(a.hosts) < maxHosts {
			a.hosts[addr] = h
		}
	}
	return h
}

// local reports whether an address is of the host that captured, if that is known. If both ends
// are, the capture has everything once, and nothing is known.
func (a *Analyser) local(addr, other netip.Addr) (local, known bool) {
	h, o := a.hosts[addr], a.hosts[other]
	if h == nil || o == nil || h.local && o.local {
		return false, false
	}
	switch {
	case h.known && h.local:
		return true, true
	case o.known && o.local:
		return false, true
	}
	return false, false
}

// again reports whether the packet was captured before at another place: another interface,
// the other direction, or behind a router.
func (a *Analyser) again(p *pcap.Packet) bool {
	if p.Cut() || len(p.Data) < ib.BTHBytes+ib.ICRCBytes {
		return false
	}
	key := flowKey{p.Flow.Src, p.Flow.Dst, p.DestQP}
	now := lastSeen{p.PSN, p.Opcode, ib.TrailingICRC(p.Data), p.Iface, p.Dir, p.HopLimit, p.AtNs}
	was, ok := a.recent[key]
	if ok && was.psn == now.psn && was.opcode == now.opcode && was.icrc == now.icrc && now.at-was.at < twiceNs &&
		(was.iface != now.iface || was.dir != now.dir || was.ttl != now.ttl) {
		return true
	}
	if !ok && len(a.recent) >= maxRecent {
		clear(a.recent)
	}
	a.recent[key] = now
	return false
}

const (
	maxRecent = 1 << 16
	twiceNs   = 5e6
)

// judgeICRC says whether a packet was damaged on its way, and notes that. As long as no packet from
// the address had a right ICRC, none is taken for damaged: the capture may be from
// before the card computes it.
func (a *Analyser) judgeICRC(p *pcap.Packet, src *host) bool {
	switch p.ICRC {
	case pcap.ICRCRight, pcap.ICRCRightRxe:
		src.right++
		if src.held != nil {
			for _, f := range src.held {
				a.keep(f)
			}
			src.held = nil
		}
	case pcap.ICRCWrong:
		src.wrong++
		f := a.newFinding(Corrupt, p.DestQP, p.PSN, p.Frame)
		f.what = func(*Finding) string {
			return "The ICRC of this packet is wrong: the receiver drops it, and it has to be sent again. The damage may be anywhere, also in the numbers shown."
		}
		if src.right == 0 {
			if len(src.held) < maxFindingFrames {
				src.held = append(src.held, f)
			}
			return false
		}
		a.keep(f)
		if len(a.lastBad) < maxHosts {
			a.lastBad[pairKey{p.Flow.Src, p.Flow.Dst}] = &badPacket{frame: p.Frame, psn: p.PSN, find: f}
		}
		return true
	}
	return false
}
