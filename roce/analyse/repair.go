package analyse

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// Loss is a packet of RC that is known to have been lost, since the caller has dropped it on
// purpose.
type Loss struct {
	// Requester and Responder are the two ends of the requests that the packet belongs to, both
	// with their QPN.
	Requester, Responder Endpoint
	PSN                  ib.PSN
	// Response is set if the packet went to the requester: a response to the READ that begins with
	// the PSN Request, in one request or several. MTU is then the path MTU, in bytes.
	Response bool
	Request  ib.PSN
	MTU      int
}

// Repair describes how a loss was mended. The capture must be from the requester's host. Times are
// those of the packets, and 0 where there is no such packet.
type Repair struct {
	Loss Loss `json:"loss"`
	// Times is how often the lost packet is in the capture, and SentNs when, for the first
	// maxRepairPackets of them. For a response, they do not include the one that was lost.
	Times  int     `json:"times"`
	SentNs []int64 `json:"sent_ns,omitempty"`
	// Probes is how many requests before the lost packet were repeated, or READ requests that do
	// not begin at the lost response: the maximum between two answers to something new. None has to
	// be, but a requester may ask for an answer that way.
	Probes int `json:"probes"`
	// ShownNs is when the first packet after the lost one came, which shows the gap.
	ShownNs int64 `json:"shown_ns,omitempty"`
	// NAKs counts the sequence NAKs for the lost request, NAKNs is when the first one came, and
	// ResentNs is when the request followed.
	NAKs     int   `json:"naks"`
	NAKNs    int64 `json:"nak_ns,omitempty"`
	ResentNs int64 `json:"resent_ns,omitempty"`
	// Missing is how many bytes the first READ request for the lost response asked for, from that
	// response on.
	Missing uint32 `json:"missing,omitempty"`
	// Asked are the requests that asked for it again until it came, perhaps for more: the first
	// maxRepairPackets of them. MoreAsked counts the others.
	Asked     []Ask `json:"asked,omitempty"`
	MoreAsked int   `json:"more_asked,omitempty"`
	// Skipped is the first request that begins behind the lost response and inside an earlier
	// request, after ShownNs and before that response came.
	Skipped *Ask `json:"skipped,omitempty"`
}

// Ask is a READ request for responses that were asked for before.
type Ask struct {
	PSN   ib.PSN `json:"psn"`
	Bytes uint32 `json:"bytes"`
	AtNs  int64  `json:"at_ns"`
}

// maxRepairPackets bounds the lists of a Repair.
const maxRepairPackets = 64

// For returns the first Ask that begins at the lost response; ok is false if there is none.
func (r *Repair) For() (a Ask, ok bool) {
	for _, a := range r.Asked {
		if a.PSN == r.Loss.PSN {
			return a, true
		}
	}
	return Ask{}, false
}

// repair follows the packets of one Loss.
type repair struct {
	Repair
	to, back flowKey         // requests and answers
	seen     map[ib.PSN]bool // requests before the lost one; where READ requests begin
	begun    bool            // a READ request was seen
	asked    bool            // and one for the lost response
	end      ib.PSN          // of what READ requests have asked for
	probes   int             // since progress
	progress
}

// maxSeen bounds the requests that a repair can recognise.
const maxSeen = 4096

func newRepair(l Loss) *repair {
	q, r := l.Requester, l.Responder
	return &repair{Repair: Repair{Loss: l}, to: flowKey{q.Addr, r.Addr, r.QPN},
		back: flowKey{r.Addr, q.Addr, q.QPN}, seen: map[ib.PSN]bool{}}
}

// packet takes a packet of any connection.
func (r *repair) packet(p *pcap.Packet) {
	info := p.Opcode.Info()
	switch (flowKey{p.Flow.Src, p.Flow.Dst, p.DestQP}) {
	case r.to:
		if info.Transport == ib.RC && !info.Response {
			r.request(p)
		}
	case r.back:
		if info.Transport == ib.RC && info.Response && p.ICRC != pcap.ICRCWrong {
			r.answer(p)
		}
	}
}

func (r *repair) request(p *pcap.Packet) {
	d := p.PSN.Diff(r.Loss.PSN)
	if r.Loss.Response {
		if p.Opcode == ib.RCReadRequest {
			r.ask(p, d)
		}
		return
	}
	switch {
	case d == 0:
		r.came(p)
		if r.NAKNs != 0 && r.ResentNs == 0 {
			r.ResentNs = p.AtNs
		}
	case d > 0 && r.ShownNs == 0:
		r.ShownNs = p.AtNs
	case d < 0 && r.seen[p.PSN]:
		r.probe()
	case d < 0:
		r.saw(p.PSN)
	}
}

func (r *repair) probe() {
	r.probes++
	r.Probes = max(r.Probes, r.probes)
}

func (r *repair) saw(psn ib.PSN) {
	if len(r.seen) < maxSeen {
		r.seen[psn] = true
	}
}

// came notes the lost packet itself.
func (r *repair) came(p *pcap.Packet) {
	r.Times++
	if len(r.SentNs) < maxRepairPackets {
		r.SentNs = append(r.SentNs, p.AtNs)
	}
}

// ask notes a READ request that begins d behind the lost response. One that begins where no request
// has reached is no repetition: a requester may ask for a long message in parts.
func (r *repair) ask(p *pcap.Packet, d int) {
	if p.PSN.Diff(r.Loss.Request) < 0 || d > 0 && r.Times > 0 {
		return // a READ before or behind
	}
	mtu := max(r.Loss.MTU, 1)
	packets := min(max(1, (int(p.RETH.Len)+mtu-1)/mtu), 1<<22)
	again := r.begun && p.PSN.Before(r.end)
	if end := p.PSN.Add(packets); !r.begun || end.After(r.end) {
		r.begun, r.end = true, end
	}
	a := Ask{p.PSN, p.RETH.Len, p.AtNs}
	switch {
	case d > 0:
		if again && r.ShownNs != 0 && r.Skipped == nil && !r.seen[p.PSN] {
			r.Skipped = &a
		}
	case packets <= -d: // for what is before
	case !r.asked:
		r.asked, r.Missing = true, p.RETH.Len-uint32(-d*mtu)
	case len(r.Asked) == maxRepairPackets:
		r.MoreAsked++
	default:
		r.Asked = append(r.Asked, a)
	}
	if !again {
		r.saw(p.PSN)
	} else if d != 0 {
		r.probe()
	}
}

func (r *repair) answer(p *pcap.Packet) {
	if r.progress.answer(p) {
		r.probes = 0
	}
	if !r.Loss.Response {
		if p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome == ib.NAKSequence && p.PSN == r.Loss.PSN {
			if r.NAKs++; r.NAKs == 1 {
				r.NAKNs = p.AtNs
			}
		}
		return
	}
	switch d := p.PSN.Diff(r.Loss.PSN); {
	case d == 0:
		r.came(p)
	case d > 0 && r.ShownNs == 0:
		r.ShownNs = p.AtNs
	}
}

// progress knows whether an answer is to something new.
type progress struct {
	begun  bool
	newest ib.PSN // that an answer has confirmed
}

func (g *progress) answer(p *pcap.Packet) bool {
	confirmed := p.PSN
	if p.Opcode == ib.RCAcknowledge && p.AETH.Syndrome.Kind() != ib.SyndromeACK {
		confirmed = p.PSN.Prev() // a NAK is an answer to what came before
	}
	if g.begun && confirmed.Diff(g.newest) <= 0 {
		return false
	}
	g.begun, g.newest = true, confirmed
	return true
}
