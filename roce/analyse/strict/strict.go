package strict

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// Options say what is known of a capture. The zero value knows nothing.
type Options struct {
	// Complete: the capture has all packets of the connections in it, from their first on, in the
	// order in which they passed. A trace of roce/link/trace that began with the program is.
	Complete bool
	// Lossless: between the place of the capture and either end nothing is lost, doubled, overtaken
	// or damaged.
	Lossless bool
	// MaxViolations bounds [Report].Violations; 0 is 1000. All are counted.
	MaxViolations int
}

// Violation is a packet that breaks a rule.
type Violation struct {
	Rule    Rule       `json:"rule"`
	Frame   int        `json:"frame"`
	AtNs    int64      `json:"at_ns"`
	By      netip.Addr `json:"by"`  // who breaks it
	QPN     ib.QPN     `json:"qpn"` // that the packet is for
	PSN     ib.PSN     `json:"psn"`
	Allowed string     `json:"allowed"`
	Came    string     `json:"came"`
	// Excuses are what would explain it otherwise; without any it is certain.
	Excuses []Excuse `json:"excuses,omitempty"`
	Certain bool     `json:"certain"`
	// More is how many later packets of this flow break the same rule in the same way. It is of
	// rules about what all packets of a sender have; of others each packet is a violation.
	More int `json:"more,omitempty"`
}

// Report is what was found.
type Report struct {
	Packets    int         `json:"packets"`
	Violations []Violation `json:"violations"`
	// Broken counts violations by rule: those that are certain, and those that are possible.
	Broken map[Rule]Count `json:"broken"`
	// Checked is how many packets were held against anything but what a packet says by itself.
	Checked int `json:"checked"`
	// Selective is how many packets of RC say that their sender repeats selectively (docs/loss.md),
	// by a bit that is reserved, and that a sequence NAK has a payload. That is no violation:
	// receivers ignore the bit, and the payload comes only to a peer that has set it.
	Selective int `json:"selective,omitempty"`
	// Left is how many packets were not followed, for want of room.
	Left int `json:"left,omitempty"`
}

// Count is how often a rule was broken.
type Count struct {
	Certain  int `json:"certain"`
	Possible int `json:"possible"`
}

// Certain reports whether a rule was broken for certain.
func (r *Report) Certain() bool {
	for _, c := range r.Broken {
		if c.Certain > 0 {
			return true
		}
	}
	return false
}

// Bounds.
const (
	defaultViolations = 1000
	maxFlows          = 1 << 14
	maxStanding       = 1 << 14
	maxRecords        = 4096    // of a direction
	maxAllRecords     = 1 << 19 // of all; beyond it a direction keeps fewRecords
	fewRecords        = 64
	maxReads          = 512 // of a direction
	maxOpen           = 512
	maxWrongs         = 64
)

// Checker holds packets against the rules.
type Checker struct {
	opt      Options
	rep      Report
	flows    map[flowKey]*flow
	opposite map[pairKey][]*flow // by source and destination
	standing map[standingKey]int // index in rep.Violations
	records  int
	cm       cmChecker
}

type flowKey struct {
	src, dst netip.Addr
	qpn      ib.QPN
}

type pairKey struct{ src, dst netip.Addr }

type standingKey struct {
	flow flowKey
	rule Rule
}

// New returns a Checker.
func New(opt Options) *Checker {
	if opt.MaxViolations <= 0 {
		opt.MaxViolations = defaultViolations
	}
	c := &Checker{opt: opt, flows: map[flowKey]*flow{}, opposite: map[pairKey][]*flow{},
		standing: map[standingKey]int{}}
	c.rep.Broken = map[Rule]Count{}
	c.cm.c = c
	return c
}

// Add takes the next packet of the capture.
func (c *Checker) Add(p *pcap.Packet) {
	if p.ICMP != nil {
		return
	}
	c.rep.Packets++
	if p.Problem != "" {
		c.unreadable(p)
		return
	}
	f := c.flow(p)
	if f != nil && f.twice(p) {
		return
	}
	c.alone(f, p)
	if f == nil || p.ICRC == pcap.ICRCWrong {
		return // it is as if it had not come
	}
	switch info := p.Opcode.Info(); info.Transport {
	case ib.RC, ib.UC:
		c.rep.Checked++
		f.add(p, info)
	case ib.UD:
		if p.DestQP == ib.QPNGSI {
			c.rep.Checked++
			c.cm.add(p)
		}
	case ib.TransportCNP:
		f.cnps++
	}
}

// Report ends the capture.
func (c *Checker) Report() *Report {
	for _, f := range c.inOrder() {
		f.end()
	}
	slices.SortStableFunc(c.rep.Violations, func(a, b Violation) int { return a.Frame - b.Frame })
	return &c.rep
}

// inOrder returns the flows in the order in which they began.
func (c *Checker) inOrder() []*flow {
	all := make([]*flow, 0, len(c.flows))
	for _, f := range c.flows {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *flow) int { return a.number - b.number })
	return all
}

// Read checks a capture file. An error with a report is a file that makes no sense from some place
// on.
func Read(in io.Reader, opt Options) (*Report, error) {
	f, err := pcap.NewReader(in)
	if err != nil {
		return nil, err
	}
	c, d := New(opt), &pcap.Decoder{}
	var fr pcap.Frame
	for {
		if err = f.Next(&fr); err != nil {
			break
		}
		packets := d.Decode(&fr)
		for i := range packets {
			c.Add(&packets[i])
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return c.Report(), err
}

// broke notes a violation by the sender of a packet.
func (c *Checker) broke(r Rule, p *pcap.Packet, by netip.Addr, excuses []Excuse, allowed, came string) {
	var open []Excuse
	for _, e := range excuses {
		closed := c.opt.Complete && (e == ExcuseCapture || e == ExcuseBefore || e == ExcuseReuse) ||
			c.opt.Lossless && e == ExcuseWay
		if !closed && !slices.Contains(open, e) {
			open = append(open, e)
		}
	}
	n := c.rep.Broken[r]
	if len(open) == 0 {
		n.Certain++
	} else {
		n.Possible++
	}
	c.rep.Broken[r] = n
	if len(c.rep.Violations) >= c.opt.MaxViolations {
		return
	}
	c.rep.Violations = append(c.rep.Violations, Violation{
		Rule: r, Frame: p.Frame, AtNs: p.AtNs, By: by, QPN: p.DestQP, PSN: p.PSN,
		Allowed: allowed, Came: came, Excuses: open, Certain: len(open) == 0,
	})
}

// always notes a violation of a rule that all packets of a flow break, or none: the first, and how
// many follow.
func (c *Checker) always(r Rule, p *pcap.Packet, excuses []Excuse, allowed, came string) {
	k := standingKey{flowKey{p.Flow.Src, p.Flow.Dst, p.DestQP}, r}
	if i, ok := c.standing[k]; ok {
		v := &c.rep.Violations[i]
		v.More++
		n := c.rep.Broken[r]
		if v.Certain {
			n.Certain++
		} else {
			n.Possible++
		}
		c.rep.Broken[r] = n
		return
	}
	before := len(c.rep.Violations)
	c.broke(r, p, p.Flow.Src, excuses, allowed, came)
	if len(c.rep.Violations) > before && len(c.standing) < maxStanding {
		c.standing[k] = before
	}
}

// describe is a packet in a few words.
func describe(p *pcap.Packet) string {
	s := fmt.Sprintf("%v, PSN %d", p.Opcode, p.PSN)
	h := p.Opcode.Info().Headers
	if h&ib.HasRETH != 0 {
		s += fmt.Sprintf(", address %#x, key %#x, length %d", p.RETH.VA, uint32(p.RETH.RKey), p.RETH.Len)
	}
	if h&ib.HasAtomicETH != 0 {
		s += fmt.Sprintf(", address %#x, key %#x", p.Atomic.VA, uint32(p.Atomic.RKey))
	}
	if h&ib.HasAETH != 0 {
		s += fmt.Sprintf(", %v, MSN %d", p.AETH.Syndrome, p.AETH.MSN)
	}
	if p.PayloadBytes > 0 {
		s += fmt.Sprintf(", %d bytes", p.PayloadBytes)
	}
	return s
}
