package analyse

import (
	"errors"
	"io"
	"net/netip"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/pcap"
)

// Analyser follows the connections of a capture. See [New].
type Analyser struct {
	opt     Options
	steps   int64
	records int

	packets   int
	malformed int
	twice     int
	lacking   int // packets that passed, and are not in the capture
	start     int64
	now       int64

	conns     []*conn
	moreConns int
	flows     map[flowKey]flow
	datagrams map[datagramKey]*conn
	waiting   map[waitKey][]*conn // connections of which one flow is known, by a PSN that may be answered
	unpaired  map[pairKey][]*conn
	hosts     map[netip.Addr]*host
	exchanges map[cmKey]*exchange
	exOrder   []*exchange

	findings     []*Finding
	moreFindings int
	lastBad      map[pairKey]*badPacket
	recent       map[flowKey]lastSeen
	silent       map[netip.Addr]*silentAddr
	times        times
	breaches     []Breach
	moreBreaches int
	unjudged     int
	repairs      []*repair
	recalled     recall
}

// New returns an analyser.
func New(opt Options) *Analyser {
	if opt.MaxConnections <= 0 {
		opt.MaxConnections = defaultConnections
	}
	if opt.MaxRecords <= 0 {
		opt.MaxRecords = defaultRecords
	}
	if opt.MaxFindings <= 0 {
		opt.MaxFindings = defaultFindings
	}
	a := &Analyser{
		opt: opt, flows: map[flowKey]flow{}, datagrams: map[datagramKey]*conn{}, waiting: map[waitKey][]*conn{},
		unpaired: map[pairKey][]*conn{}, hosts: map[netip.Addr]*host{}, exchanges: map[cmKey]*exchange{},
		lastBad: map[pairKey]*badPacket{}, recent: map[flowKey]lastSeen{},
	}
	for _, l := range opt.Local {
		h := a.host(l.Unmap())
		h.local, h.known = true, true
	}
	if opt.Conduct != nil {
		a.know(opt.Conduct.Connections)
		for _, l := range opt.Conduct.Losses {
			a.repairs = append(a.repairs, newRepair(l))
		}
	}
	return a
}

// Read analyses a capture file. If the file has an error, the report covers the packets before it.
func Read(r io.Reader, opt Options) (*Report, *pcap.Decoder, error) {
	d := &pcap.Decoder{}
	f, err := pcap.NewReader(r)
	if err != nil {
		return nil, d, err
	}
	a := New(opt)
	var fr pcap.Frame
	for {
		if err = f.Next(&fr); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return a.Report(), d, err
		}
		packets := d.Decode(&fr)
		for i := range packets {
			a.Add(&packets[i])
		}
	}
}

// Add processes the next packet. It does not retain p.
func (a *Analyser) Add(p *pcap.Packet) Note {
	if a.packets == 0 {
		a.start = p.AtNs
	}
	a.packets++
	a.steps++
	a.now = max(a.now, p.AtNs)
	a.times.note(p.Frame, p.AtNs)
	if p.ICMP != nil {
		return a.icmp(p)
	}
	a.judgeSent(p)
	src := a.host(p.Flow.Src)
	switch p.Dir {
	case pcap.Out:
		src.local, src.known = true, true
	case pcap.In:
		if !p.Flow.Dst.IsMulticast() {
			if d := a.host(p.Flow.Dst); !src.local {
				d.local, d.known = true, true
			}
		}
	}
	if p.Problem != "" {
		a.malformed++
		return Note{}
	}
	if a.again(p) {
		a.twice++
		return Note{Twice: true}
	}
	src.heard, src.heardFrame = p.AtNs, p.Frame
	for _, r := range a.repairs {
		r.packet(p)
	}
	a.recall(p)
	bad := a.judgeICRC(p, src)
	info := p.Opcode.Info()
	switch {
	case info.Transport == ib.UD && p.DestQP == ib.QPNGSI:
		return a.handleMAD(p, bad)
	case info.Transport == ib.UD:
		return a.handleDatagram(p, bad)
	}
	return a.connected(p, info, bad)
}

// newFinding makes a finding that is not in the report yet.
func (a *Analyser) newFinding(k Kind, qpn ib.QPN, psn ib.PSN, frames ...int) *Finding {
	f := &Finding{Kind: k, QPN: qpn, PSN: psn, request: psn, Certain: true, AtNs: a.now - a.start, count: 1, a: a}
	for _, n := range frames {
		if n > 0 {
			f.add(n)
		}
	}
	return f
}

// keep puts a finding into the report.
func (a *Analyser) keep(f *Finding) *Finding {
	if len(a.findings) >= a.opt.MaxFindings {
		a.moreFindings++
		return f
	}
	a.findings = append(a.findings, f)
	return f
}

// connected handles a packet of RC, UC, or a CNP.
func (a *Analyser) connected(p *pcap.Packet, info *ib.OpcodeInfo, bad bool) Note {
	key := flowKey{p.Flow.Src, p.Flow.Dst, p.DestQP}
	fl, ok := a.flows[key]
	if bad {
		// Nothing in it can be relied on.
		n := Note{Role: RoleRequest}
		if info.Response {
			n.Role = RoleAnswer
		}
		if ok {
			fl.c.touch(p, fl.side)
			n.Connection, n.End = fl.c.id, fl.side
			if b := a.lastBad[pairKey{key.src, key.dst}]; b != nil && b.frame == p.Frame {
				b.find.conn = fl.c
			}
		}
		return n
	}
	if !ok {
		fl, ok = a.place(p, info, key)
		if !ok {
			return Note{}
		}
		a.flows[key] = fl
	}
	c := fl.c
	if c.transport == 0 || c.transport == ib.TransportCNP {
		c.transport = info.Transport
	}
	if !c.ends[0].Known || !c.ends[1].Known {
		if c = a.pair(c, p, info); c != fl.c {
			fl = a.flows[key]
		}
	}
	c.touch(p, fl.side)
	n := Note{Connection: c.id, End: fl.side}
	if p.CE() {
		c.congested(p, fl.side)
	}
	switch {
	case info.Op == ib.OpCNP:
		n.Role = RoleCNP
		c.way[1-fl.side].cut(p)
	case info.Response:
		n.Role = RoleAnswer
		c.way[1-fl.side].answer(p, info, &n)
		if q := c.way[1-fl.side].conduct; q != nil {
			q.answer(p, info)
		}
	default:
		n.Role = RoleRequest
		if x := c.ex; x != nil && x.dataAt == 0 && p.Flow.Src == x.from && x.request(mad.AttrREP).times > 0 {
			x.dataAt = p.Frame
		}
		c.way[fl.side].request(p, info, &n)
		if q := c.way[fl.side].conduct; q != nil {
			q.request(p)
		}
	}
	return n
}
