package analyse

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// icmp handles what a router or host says about a RoCE packet.
func (a *Analyser) icmp(p *pcap.Packet) Note {
	n := Note{Role: RoleICMP}
	m := p.ICMP
	var c *conn
	var h *half
	if m.HasBTH {
		if fl, ok := a.flows[flowKey{p.Flow.Src, p.Flow.Dst, p.DestQP}]; ok {
			c = fl.c
			h = c.way[fl.side]
			n.Connection, n.End = c.id, 1-fl.side
			c.packets++
		}
	}
	kind := PeerGone
	if m.What == pcap.TooBig {
		kind = PMTUBlackhole
	}
	key := p.Flow.Dst
	host := a.host(key)
	if f := host.refused; f != nil && f.Kind == kind {
		f.add(p.Frame)
		f.count++
		return n
	}
	f := a.newFinding(kind, p.DestQP, p.PSN, p.Frame)
	f.conn = c
	if h != nil {
		if r := h.sent.get(p.PSN); r != nil {
			f.add(r.last)
		}
	}
	from, dst, mtu, what := m.From, key, m.MTU, m.What
	f.what = func(f *Finding) string {
		if f.Kind == PMTUBlackhole {
			return fmt.Sprintf("%v says that packets to %v are too big for the path: it carries IP packets of %d bytes (ICMP in packet %d, %d times).",
				from, dst, mtu, f.Frames[0], f.count)
		}
		s := fmt.Sprintf("%v says of packets to %v: %v (ICMP in packet %d, %d times).", from, dst, what,
			f.Frames[0], f.count)
		if what == pcap.PortUnreachable {
			s += " Nobody there has UDP port 4791."
		}
		return s
	}
	host.refused = f
	a.keep(f)
	return n
}

// end concludes a direction: what has no answer now never had one.
func (h *half) end(now int64) {
	if !h.reliable() || h.oneWay() && h.c.ex == nil && !h.c.ends[h.side].Known && h.pending == nil {
		return
	}
	quiet := now - h.lastReqAt
	retry := unknownRetryCount(h.c)
	if h.rnr.valid && !h.rnr.answered && h.rnr.find != nil {
		wait := h.rnr.code.Ns()
		left := now - h.rnr.at
		byCount := retry.rnr < 7 && h.rnr.count > retry.rnr
		if byCount || left > 4*wait+int64(100*time.Millisecond) || h.c.closed && left > wait {
			f := h.find(RNRExceeded, h.rnr.psn, h.rnr.frame)
			f.Status, f.Certain = statusRNRRetry, byCount || h.c.closed
			count := h.rnr.count
			f.what = func(*Finding) string {
				s := fmt.Sprintf("After %d RNR NAKs %s sent the message with PSN %d no more.", count,
					h.requester(), h.rnr.psn)
				if !f.Certain {
					s += " It probably gave up; the capture may also have ended too soon."
				}
				return s
			}
		}
	}
	h.blackhole()
	h.blackholeBack()
	h.hungUpOn()
	s := h.pending
	if s == nil {
		h.endAnswered(quiet, retry)
		return
	}
	if h.c.closed {
		quiet = h.c.closedAt - h.lastReqAt
	}
	h.unanswered(s, quiet, retry)
}

// unanswered reports a request that was sent again for want of an answer, and has none at the end
// of the capture. Being sent again takes time, and each time is a sign: one may have been lost, and
// several in a row hardly.
func (h *half) unanswered(s *silence, quiet int64, retry retries) {
	n := len(s.frames) - 1
	gap := max(h.silentGap, 1)
	request, back := lostKinds(s.rec.opcode.Info().Op)
	word := requestWord(request)
	over := quiet > 2*gap && n >= manyTimes || quiet > 4*gap+int64(time.Second) ||
		h.c.closed && (quiet >= gap*9/10 && n >= manyTimes || n >= mostRetries) // it waited once more, and then hung up
	if !over && n < manyTimes {
		f := h.find(request, s.psn, s.frames...)
		f.is(request, back, RetryExceeded)
		f.what = func(*Finding) string {
			return fmt.Sprintf("%s sent the %s with PSN %d %s and had no answer when the capture ended.",
				h.requester(), word, s.psn, often(n+1))
		}
		return
	}
	f := h.find(RetryExceeded, s.psn, s.frames...)
	f.Status = statusRetry
	// With the retry count known, this was the last time. Without it, the process may have ended
	// first.
	peer := h.a.hosts[h.c.ends[1-h.side].Addr]
	byCount := retry.known && retry.count < 7 && h.silences >= retry.count && quiet > gap+gap/4
	switch {
	case byCount:
	case peer != nil && peer.heard > s.at:
		f.is(RetryExceeded, request, back) // it lives
	case over && (!h.c.closed || n >= mostRetries):
		f.is(RetryExceeded, PeerGone)
	default:
		f.is(RetryExceeded, PeerGone, request, back)
	}
	f.what = func(*Finding) string {
		t := fmt.Sprintf("%s sent the %s with PSN %d %s in %v (packets %d to %d) and had no answer from %s",
			h.requester(), word, s.psn, often(n+1), time.Duration(s.at-s.first), f.Frames[0],
			f.Frames[len(f.Frames)-1], h.responder())
		switch {
		case byCount:
			t += "; then it gave up."
		case over && h.c.closed:
			t += fmt.Sprintf("; then the connection was taken down (packet %d).", h.c.closedBy)
		case over:
			t += ". That it gave up is not in the capture: it sends no more, and its process may have ended."
		default:
			t += " until the capture ended."
		}
		if h.nAnswers > 0 {
			t += " Before that the peer had answered on this connection."
		} else if h.c.ex == nil {
			t += " The capture has no answer of the peer on this connection at all."
		}
		return t
	}
	h.a.unansweredAt(h.c.ends[1-h.side].Addr, s.frames[0], nil)
}

// manyTimes is how often a request must have been repeated without an answer to count as one that
// is never answered.
const manyTimes = 2

// mostRetries is the maximum number of retries of a verbs queue pair.
const mostRetries = 7

func often(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// hungUpOn reports an operation that waited for its answer when RDMA-CM took the connection down.
func (h *half) hungUpOn() {
	if h.c.closedBy == 0 || h.pending != nil {
		return
	}
	for i := max(len(h.own.ops)-16, 0); i < len(h.own.ops); i++ {
		h.a.steps++
		o := h.own.ops[i]
		waited := h.c.closedAt - o.askedAt
		if !o.read {
			waited = h.c.closedAt - o.at
		}
		if o.done || o.again || o.got > 0 || o.passed != 0 || waited < max(reorderNs, 4*h.rtt.min) {
			continue
		}
		request, back := lostKinds(o.op)
		f := h.find(request, o.first, o.frame, h.c.closedBy)
		f.is(request, back)
		by := h.c.closedBy
		f.what = func(f *Finding) string {
			return fmt.Sprintf(
				"The %s in packet %d had no answer for %v when the connection was taken down in packet %d.",
				o.kind, f.Frames[0], time.Duration(waited), by)
		}
		return
	}
}

type retries struct {
	count, rnr int
	known      bool
}

// unknownRetryCount is what RDMA-CM has told of the retries of a connection.
func unknownRetryCount(c *conn) retries {
	if c.ex == nil || c.ex.retries == unknownRetry {
		return retries{7, 7, false}
	}
	return retries{int(c.ex.retries), int(c.ex.rnrRetries), true}
}

// endAnswered concludes a direction in which the answers passed here and yet the requester repeated
// its request until it gave up. What it had last may have reached it.
func (h *half) endAnswered(quiet int64, retry retries) {
	f := h.silentLast
	if f == nil || h.silences < 2 || f.request != h.silentPSN || h.una.Diff(h.next) != 0 ||
		h.lastReqAt != h.silentAt || h.atRequester() {
		return
	}
	if !(retry.known && retry.count < 7 && h.silences >= retry.count || h.c.closed || quiet > 2*h.silentGap) {
		return
	}
	g := h.find(RetryExceeded, f.PSN, f.Frames...)
	g.Status = statusRetry
	g.is(RetryExceeded, LateAck)
	n := h.silences
	g.what = func(*Finding) string {
		return fmt.Sprintf("%s repeated the request with PSN %d %s though it was answered here, and then sent no more: it gave up, for no answer reached it; or the last one did.",
			h.requester(), f.PSN, often(n))
	}
}

// silentAddr is an address that does not answer any more.
type silentAddr struct {
	frame int
	n     int
	lost  []*Finding // messages of RDMA-CM that seemed lost
}

// unansweredAt notes that something to addr had no answer.
func (a *Analyser) unansweredAt(addr netip.Addr, frame int, lost *Finding) {
	if a.silent == nil {
		a.silent = map[netip.Addr]*silentAddr{}
	}
	s := a.silent[addr]
	if s == nil {
		s = &silentAddr{frame: frame}
		a.silent[addr] = s
	}
	s.n++
	if lost != nil {
		s.lost = append(s.lost, lost)
	}
	if frame > 0 && frame < s.frame {
		s.frame = frame
	}
}

// gone reports addresses that stopped to answer altogether.
func (a *Analyser) gone() {
	addrs := make([]netip.Addr, 0, len(a.silent))
	for addr := range a.silent {
		addrs = append(addrs, addr)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, addr := range addrs {
		s := a.silent[addr]
		h := a.hosts[addr]
		if s.n < 2 || h == nil || h.heardFrame == 0 || h.heardFrame > s.frame || h.refused != nil {
			continue
		}
		for _, lost := range s.lost {
			lost.gone = true
		}
		f := a.keep(a.newFinding(PeerGone, 0, 0, s.frame))
		f.Certain = false
		last := h.heardFrame
		f.what = func(*Finding) string {
			return fmt.Sprintf("%v sent its last packet in packet %d. After that nothing to it was answered, from packet %d on: neither requests nor RDMA-CM.",
				addr, last, f.Frames[0])
		}
	}
}

// Report ends the analysis. Add must not be called after it.
func (a *Analyser) Report() *Report {
	for _, c := range a.conns {
		if c.merged != nil {
			continue
		}
		for _, h := range c.way {
			h.end(a.now)
		}
	}
	for _, x := range a.exOrder {
		x.noRTU(a)
		x.noAnswer(a)
		if peer, ask := x.end(a); peer.IsValid() {
			a.unansweredAt(peer, ask.frame, ask.find)
		}
	}
	a.gone()
	rewritten := a.rewritten()

	r := &Report{
		Connections: []*Connection{}, Findings: []*Finding{}, // in JSON a list, also without any
		Packets: a.packets, StartNs: a.start, DurationNs: max(a.now-a.start, 0), Malformed: a.malformed, Twice: a.twice,
		MoreConnections: a.moreConns, MoreFindings: a.moreFindings, Breaches: a.breaches,
		MoreBreaches: a.moreBreaches, Unjudged: a.unjudged, Steps: a.steps,
		renumbered: map[int]int{}, recalled: a.recalled,
	}
	for _, x := range a.repairs {
		r.Repairs = append(r.Repairs, &x.Repair)
	}
	live := make([]*conn, 0, len(a.conns))
	for _, c := range a.conns {
		if c.merged == nil {
			live = append(live, c)
		}
	}
	slices.SortStableFunc(live, func(x, y *conn) int {
		switch {
		case x.first < y.first:
			return -1
		case x.first > y.first:
			return 1
		}
		return x.id - y.id
	})
	for i, c := range live {
		c.number = i + 1
		r.Connections = append(r.Connections, c.report(a))
	}
	for _, c := range a.conns {
		k := c
		for k.merged != nil {
			k = k.merged
		}
		r.renumbered[c.id] = k.number
	}
	for _, f := range a.findings {
		if f.gone {
			continue
		}
		if c := f.conn; c != nil {
			for c.merged != nil {
				c = c.merged
			}
			f.Connection = c.number
			if len(f.Or) > 0 && (rewritten[c.ends[0].Addr] || rewritten[c.ends[1].Addr]) &&
				!(f.Kind == RetryExceeded && a.atHome(c)) {
				continue // why nothing was answered is known
			}
		}
		f.finish()
		r.Findings = append(r.Findings, f)
	}
	slices.SortStableFunc(r.Findings, func(x, y *Finding) int { return x.Frames[0] - y.Frames[0] })
	return r
}

// atHome reports whether the addresses of a connection without a right ICRC may be those of the
// host that captured: before its card has computed it.
func (a *Analyser) atHome(c *conn) bool {
	for i := range c.ends {
		if h := a.hosts[c.ends[i].Addr]; h != nil && h.wrong > 0 && h.right == 0 && h.local {
			return true
		}
	}
	return false
}

// rewritten reports addresses none of whose packets has a right ICRC, and returns them.
func (a *Analyser) rewritten() (all map[netip.Addr]bool) {
	addrs := make([]netip.Addr, 0, 4)
	for addr, h := range a.hosts {
		if h.wrong > 0 && h.right == 0 {
			addrs = append(addrs, addr)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, addr := range addrs {
		h := a.hosts[addr]
		if h.wrong < 2 {
			for _, f := range h.held {
				a.keep(f)
			}
			continue
		}
		f := a.newFinding(ICRCRewritten, h.held[0].QPN, h.held[0].PSN)
		for _, x := range h.held {
			f.add(x.Frames[0])
		}
		f.AtNs, f.Certain = h.held[0].AtNs, false
		n := h.wrong
		f.what = func(*Finding) string {
			return fmt.Sprintf("None of the %d packets from %v has a right ICRC.", n, addr)
		}
		a.keep(f)
		if all == nil {
			all = map[netip.Addr]bool{}
		}
		all[addr] = true
	}
	return all
}

// report makes the public form of a connection.
func (c *conn) report(a *Analyser) *Connection {
	r := &Connection{
		Number: c.number, Transport: c.transport.String(), Ends: c.ends, FirstNs: c.first - a.start,
		LastNs: c.last - a.start, Packets: c.packets, MTU: c.mtu,
	}
	if c.cmOnly {
		r.Transport = "CM"
	}
	if x := c.ex; x != nil {
		r.Service, r.CM = x.service.String(), x.steps
	}
	for i, h := range c.way {
		r.Ways[i] = h.report()
		if h.missing > 0 {
			r.Notes = append(r.Notes,
				fmt.Sprintf("The capture lacks %d requests of %v that were acknowledged.", h.missing, c.ends[i].Addr))
		}
	}
	if c.transport == ib.RC && !c.cmOnly {
		switch {
		case c.seen[0] && !c.seen[1]:
			r.Notes = append(r.Notes,
				fmt.Sprintf("No packet of %v is in the capture: why something was sent again cannot be told.",
					c.ends[1].Addr))
		case c.seen[1] && !c.seen[0]:
			r.Notes = append(r.Notes,
				fmt.Sprintf("No packet of %v is in the capture: why something was sent again cannot be told.",
					c.ends[0].Addr))
		}
		if _, known := a.local(c.ends[0].Addr, c.ends[1].Addr); !known && c.way[0].timeouts+c.way[1].timeouts > 0 {
			r.Notes = append(r.Notes,
				"The capture does not tell on which host it was taken; with --local ADDRESS some findings become more certain.")
		}
	}
	return r
}

func (h *half) report() Way {
	w := Way{
		Operations: h.ops, Packets: h.packets, Payload: h.payload, Answers: h.nAnswers, Again: h.again,
		Sequence: h.seqNAKs, RNRNAKs: h.rnrNAKs, Timeouts: h.timeouts, CE: h.nCE, CNPs: h.nCNP,
		CNPGapNs: h.cnpGap, Missing: h.missing, ACKs: h.nACKs, ACKReqs: h.nACKReqs, FirstPSN: h.first,
		NextPSN: h.next, UnackedPSN: h.una, Latency: h.lat.percentiles(), RTT: h.rtt.percentiles(),
	}
	var done int64
	for _, o := range h.ops {
		done += o.Bytes
	}
	if d := h.lastDone - h.firstAt; d > 0 {
		w.GoodputBps = float64(done) * 8 * 1e9 / float64(d)
	}
	return w
}
