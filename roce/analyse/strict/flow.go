package strict

import (
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// flow is what goes from a host to a queue pair: its requests, and its answers to requests of that
// queue pair, which come by the opposite flow.
type flow struct {
	c      *Checker
	key    flowKey
	number int
	other  *flow // the opposite one, once it is known
	half         // the requests in this flow

	out, in bool // whether packets were captured where they are sent; where they come
	agreed  *agreement
	seen    []sight // the last packets, to know one that is captured twice
	doubled bool
	fatalNs int64 // when a fatal NAK went this way; -1 if none did
	stream  stream
	marked  *pcap.Packet // the first with the mark of congestion
	cnps    int
	lastNs  int64
	unknown *pcap.Packet // the last with an opcode that is reserved
}

// agreement is what REQ and REP said.
type agreement struct {
	mtu       int
	depth     int // READs and atomics that the sender of this flow may have outstanding; -1 if unknown
	noAltPath bool
	label     uint32
	pkey      ib.PKey
	timeoutNs int64 // the ACK timeout of the sender of this flow; 0 if unknown
}

// sight is a packet as it was captured.
type sight struct {
	psn   ib.PSN
	op    ib.Opcode
	icrc  uint32
	iface int
	dir   pcap.Direction
	ttl   uint8
	at    int64
}

const (
	keptSights = 64
	twiceNs    = 5e6
)

// flow returns the flow of a packet; nil if there is no room for it.
func (c *Checker) flow(p *pcap.Packet) *flow {
	k := flowKey{p.Flow.Src, p.Flow.Dst, p.DestQP}
	f := c.flows[k]
	if f == nil {
		f = c.newFlow(k)
	}
	if f == nil {
		c.rep.Left++
		return nil
	}
	return f
}

func (c *Checker) newFlow(k flowKey) *flow {
	if len(c.flows) >= maxFlows {
		return nil
	}
	f := &flow{c: c, key: k, number: len(c.flows), fatalNs: -1}
	f.half.f = f
	f.half.reset()
	c.flows[k] = f
	pair := pairKey{k.src, k.dst}
	c.opposite[pair] = append(c.opposite[pair], f)
	return f
}

// twice reports whether a packet was captured before at another place, as "tcpdump -i any" does on
// the way through several interfaces of one host.
func (f *flow) twice(p *pcap.Packet) bool {
	if p.Cut() || len(p.Data) < ib.BTHBytes+ib.ICRCBytes {
		return false
	}
	now := sight{p.PSN, p.Opcode, ib.TrailingICRC(p.Data), p.Iface, p.Dir, p.HopLimit, p.AtNs}
	for i := range f.seen {
		was := &f.seen[i]
		if was.psn == now.psn && was.op == now.op && was.icrc == now.icrc && now.at-was.at < twiceNs &&
			(was.iface != now.iface || was.dir != now.dir || was.ttl != now.ttl) {
			f.doubled = true
			return true
		}
	}
	if len(f.seen) >= keptSights {
		f.seen = append(f.seen[:0], f.seen[1:]...)
	}
	f.seen = append(f.seen, now)
	return false
}

// onlyPath reports whether the REQ of the connection says that there is no alternate path.
func (f *flow) onlyPath() bool { return f.agreed != nil && f.agreed.noAltPath }

// sent reports whether the capture is from the host that sends this flow.
func (f *flow) sent() bool { return f.out && !f.in && !f.doubled }

// add takes a packet of RC or UC.
func (f *flow) add(p *pcap.Packet, info *ib.OpcodeInfo) {
	f.out = f.out || p.Dir == pcap.Out
	f.in = f.in || p.Dir != pcap.Out
	f.lastNs = p.AtNs
	if a := f.agreed; a != nil {
		if a.pkey&0x7FFF != p.PKey&0x7FFF {
			f.c.broke(RulePKey, p, f.key.src, []Excuse{ExcuseReuse}, "the P_Key of the REQ", describe(p))
		}
		if a.label != 0 && p.FlowLabel == 0 && p.Flow.Src.Is6() {
			f.c.always(RuleFlowLabel, p, []Excuse{ExcuseUnseen}, "the flow label of the REQ",
				"flow label 0: "+describe(p))
		}
	}
	if p.CE() && f.marked == nil {
		q := *p
		q.Data, q.Payload = nil, nil
		f.marked = &q
	}
	if !info.Response {
		f.request(p, info)
		return
	}
	if f.other == nil {
		f.pair(p)
	}
	if f.other != nil {
		f.answer(p, info, &f.other.half)
	}
}

// pair finds the flow whose requests are answered here: of those in the other direction the only
// one that has a request with the PSN of the answer.
func (f *flow) pair(p *pcap.Packet) {
	var found *flow
	for _, g := range f.c.opposite[pairKey{f.key.dst, f.key.src}] {
		if g.other != nil || !g.begun || !g.covers(p.PSN) {
			continue
		}
		if found != nil {
			return // nobody can tell
		}
		found = g
	}
	if found != nil {
		f.join(found)
	}
}

func (f *flow) join(g *flow) {
	f.other, g.other = g, f
	if f.mtu == 0 {
		f.learnMTU(g.mtu)
	} else {
		g.learnMTU(f.mtu)
	}
}

// begin makes a flow one of a new connection.
func (f *flow) begin() {
	if f.other != nil {
		f.other.other = nil
	}
	f.other, f.agreed, f.fatalNs, f.stream, f.unknown = nil, nil, -1, stream{}, nil
	f.reset()
}

// capture is what excuses what only a packet that was not seen can: the capture lacks it, or it was
// sent before.
func (h *half) capture() []Excuse {
	if h.fromStart {
		return []Excuse{ExcuseCapture}
	}
	return []Excuse{ExcuseCapture, ExcuseBefore}
}

// onWay adds what may have happened on the way, but where the capture is from the sender of a flow.
func (f *flow) onWay(e []Excuse) []Excuse {
	if f.sent() {
		return e
	}
	return append(slices.Clip(e), ExcuseWay)
}
