package analyse

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/ib/mad"
	"github.com/goroce/goroce/roce/pcap"
)

// cmKey names an exchange by the communication ID that one side chose.
type cmKey struct {
	owner, peer netip.Addr
	id          uint32
	sidr        bool
}

// exchange is a connection's life in RDMA-CM.
type exchange struct {
	c          *conn
	from, to   netip.Addr // who sent the REQ, and to whom
	service    mad.ServiceID
	retries    uint8 // of the requester of data, 8 if it is not known
	rnrRetries uint8
	steps      []string
	mraAt      int64 // when the last MRA was, and for how long it asks to wait
	mraWait    int64
	msgs       [11]cmMessage   // by attribute, from REQ
	hangUps    [2][2]cmMessage // the DREQ of either end, and the DREP to it
	dataAt     int             // frame of the first request that shows that the RTU was sent
	rejected   bool
}

// cmMessage is one kind of message of an exchange.
type cmMessage struct {
	times       int
	frame, last int
	at, lastAt  int64
	psn         ib.PSN
	find        *Finding
}

const (
	maxExchanges  = 1 << 14
	unknownRetry  = 8
	maxCMSteps    = 32
	cmDoubledNs   = 2_000_000
	cmUnansweredS = 1
)

// handleMAD handles a packet to queue pair 1.
func (a *Analyser) handleMAD(p *pcap.Packet, bad bool) Note {
	n := Note{Role: RoleCM}
	if bad || p.Cut() || len(p.Payload) != mad.Bytes {
		return n
	}
	var h mad.Header
	data, err := mad.Parse(p.Payload, &h)
	if err != mad.OK || h.Class != mad.ClassCM || h.Method != mad.MethodSend {
		return n
	}
	n.CM = h.Attribute
	x := a.exchangeOf(p, h.Attribute, data)
	if x == nil {
		return n
	}
	if x.c != nil {
		n.Connection = x.c.id
		if p.Flow.Src != x.c.ends[0].Addr {
			n.End = 1
		}
		x.c.packets++
		x.c.last = max(x.c.last, p.AtNs)
	}
	x.take(a, p, h.Attribute, data)
	return n
}

// exchangeOf finds the exchange of a message, or begins one.
func (a *Analyser) exchangeOf(p *pcap.Packet, attr mad.Attribute, d *mad.Data) *exchange {
	src, dst := p.Flow.Src, p.Flow.Dst
	switch attr {
	case mad.AttrREQ:
		var m mad.REQ
		m.Decode(d)
		key := cmKey{src, dst, uint32(m.LocalCommID), false}
		if x := a.exchanges[key]; x != nil {
			return x
		}
		return a.begin(p, key, &m)
	case mad.AttrSIDRReq:
		var m mad.SIDRReq
		m.Decode(d)
		key := cmKey{src, dst, m.RequestID, true}
		x := a.exchanges[key]
		if x == nil {
			if x = a.newExchange(p, key); x != nil {
				x.service = m.ServiceID
			}
		}
		return x
	case mad.AttrSIDRRep:
		var m mad.SIDRRep
		m.Decode(d)
		return a.exchanges[cmKey{dst, src, m.RequestID, true}]
	}
	// All others begin with the sender's ID and the receiver's.
	local, remote := ib32(d[0:]), ib32(d[4:])
	if x := a.exchanges[cmKey{dst, src, remote, false}]; x != nil && remote != 0 {
		return x
	}
	return a.exchanges[cmKey{src, dst, local, false}]
}

func ib32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func (a *Analyser) newExchange(p *pcap.Packet, key cmKey) *exchange {
	if len(a.exOrder) >= maxExchanges {
		a.moreConns++
		return nil
	}
	x := &exchange{from: p.Flow.Src, to: p.Flow.Dst, retries: unknownRetry, rnrRetries: unknownRetry}
	a.exchanges[key] = x
	a.exOrder = append(a.exOrder, x)
	q := *p
	q.DestQP = ib.QPNGSI
	if x.c = a.newConn(&q, ib.UD); x.c != nil {
		x.c.ex, x.c.cmOnly = x, true
		x.c.ends[0].QPN, x.c.ends[0].Known = ib.QPNGSI, true
	}
	return x
}

// begin begins an exchange, and the connection that it is for.
func (a *Analyser) begin(p *pcap.Packet, key cmKey, m *mad.REQ) *exchange {
	x := a.newExchange(p, key)
	if x == nil {
		return nil
	}
	x.service, x.retries, x.rnrRetries = m.ServiceID, m.RetryCount, m.RNRRetryCount
	c := x.c
	if c == nil {
		return x
	}
	c.transport = ib.RC
	if m.Transport == mad.TransportUC {
		c.transport = ib.UC
	}
	c.mtu = m.MTU.Bytes()
	c.ends[0] = Endpoint{Addr: x.from, QPN: m.QPN, Known: true}
	c.ends[1] = Endpoint{Addr: x.to}
	a.flows[flowKey{x.to, x.from, m.QPN}] = flow{c, 1}
	c.way[1].starts(m.StartingPSN)
	return x
}

// starts sets the first PSN, which RDMA-CM tells.
func (h *half) starts(psn ib.PSN) {
	h.begun, h.first, h.next, h.una, h.clean = true, psn, psn, psn, true
}

func (x *exchange) step(format string, args ...any) {
	if len(x.steps) < maxCMSteps {
		x.steps = append(x.steps, fmt.Sprintf(format, args...))
	}
}

// take handles a message of the exchange.
func (x *exchange) take(a *Analyser, p *pcap.Packet, attr mad.Attribute, d *mad.Data) {
	i := int(attr) - int(mad.AttrREQ)
	if i < 0 || i >= len(x.msgs) {
		return
	}
	if attr == mad.AttrDREQ {
		var q mad.DREQ
		if q.Decode(d); q.RemoteQPN == mad.NobodysQPN {
			return // a question whether the peer knows the connection, which ends nothing
		}
	}
	m := x.message(attr, x.side(p.Flow.Src))
	m.times++
	if attr == mad.AttrMRA {
		x.received(p, d)
	}
	if m.times > 1 {
		x.repeated(a, p, attr, m)
		return
	}
	m.frame, m.last, m.at, m.lastAt, m.psn = p.Frame, p.Frame, p.AtNs, p.AtNs, p.PSN
	switch attr {
	case mad.AttrREQ:
		x.step("REQ in packet %d from %v", p.Frame, p.Flow.Src)
	case mad.AttrREP:
		x.accepted(a, p, d)
	case mad.AttrREJ:
		x.refusal(a, p, d)
	case mad.AttrDREQ:
		x.step("DREQ in packet %d from %v", p.Frame, p.Flow.Src)
		if x.c != nil {
			if !x.c.closed {
				x.c.closedAt, x.c.closedBy = p.AtNs, p.Frame
			}
			x.c.closed = true
		}
	case mad.AttrSIDRRep:
		var s mad.SIDRRep
		s.Decode(d)
		x.step("SIDR_REP in packet %d: %v", p.Frame, s.Status)
		if s.Status != 0 {
			f := a.keep(a.newFinding(CMRejected, ib.QPNGSI, p.PSN, p.Frame))
			f.conn = x.c
			f.what = func(*Finding) string {
				return fmt.Sprintf("%v refused the request for a datagram service (%v) in packet %d: %v.",
					p.Flow.Src, x.service, f.Frames[0], s.Status)
			}
		}
	default:
		x.step("%v in packet %d", attr, p.Frame)
	}
}

// side is the end that has an address: 0 is that of the initiator.
func (x *exchange) side(addr netip.Addr) int {
	if addr == x.from {
		return 0
	}
	return 1
}

// message is what is known of a message that an end sends. Both ends may hang up.
func (x *exchange) message(attr mad.Attribute, from int) *cmMessage {
	switch attr {
	case mad.AttrDREQ:
		return &x.hangUps[from][0]
	case mad.AttrDREP:
		return &x.hangUps[1-from][1]
	}
	return x.request(attr)
}

// accepted handles a REP: now both queue pairs are known.
func (x *exchange) accepted(a *Analyser, p *pcap.Packet, d *mad.Data) {
	var m mad.REP
	m.Decode(d)
	x.step("REP in packet %d from %v", p.Frame, p.Flow.Src)
	if len(a.exchanges) < 2*maxExchanges {
		a.exchanges[cmKey{p.Flow.Src, p.Flow.Dst, uint32(m.LocalCommID), false}] = x
	}
	c := x.c
	if c == nil {
		return
	}
	c.cmOnly = false
	c.ends[1].QPN, c.ends[1].Known = m.QPN, true
	a.flows[flowKey{x.from, x.to, m.QPN}] = flow{c, 0}
	c.way[0].starts(m.StartingPSN)
}

// refusal handles a REJ.
func (x *exchange) refusal(a *Analyser, p *pcap.Packet, d *mad.Data) {
	var m mad.REJ
	m.Decode(d)
	x.rejected = true
	x.step("REJ in packet %d from %v: %v", p.Frame, p.Flow.Src, m.Reason)
	kind := CMRejected
	switch m.Reason {
	case mad.RejectStaleConnection:
		kind = StaleConnection
	case mad.RejectTimeout:
		kind = CMLost
	}
	f := a.keep(a.newFinding(kind, ib.QPNGSI, p.PSN, p.Frame))
	f.conn = x.c
	if kind == CMLost {
		f.is(CMLost, PeerGone)
	}
	src := p.Flow.Src
	f.what = func(f *Finding) string {
		s := fmt.Sprintf("%v refused the connection (service %v) in packet %d: %v.", src, x.service,
			f.Frames[0], m.Reason)
		switch m.Reason {
		case mad.RejectTimeout:
			s += " It had no answer for so long that it gave up."
		case mad.RejectInvalidServiceID:
			s += " Nobody listens on that port there."
		case mad.RejectConsumer:
			s += " It was the application that said no."
		}
		return s
	}
}

// answerTo maps a message to the one whose repetition means that the former was lost.
var answerTo = map[mad.Attribute]mad.Attribute{
	mad.AttrREQ: mad.AttrREP, mad.AttrREP: mad.AttrRTU, mad.AttrDREQ: mad.AttrDREP, mad.AttrSIDRReq: mad.AttrSIDRRep,
}

// answerOr is the other of REQ and REP.
func answerOr(a mad.Attribute) mad.Attribute {
	if a == mad.AttrREQ {
		return mad.AttrREP
	}
	return mad.AttrREQ
}

// repeated handles a message that came before.
func (x *exchange) repeated(a *Analyser, p *pcap.Packet, attr mad.Attribute, m *cmMessage) {
	was, since, same := m.last, p.AtNs-m.lastAt, m.psn == p.PSN
	m.last, m.lastAt, m.psn = p.Frame, p.AtNs, p.PSN
	back, asks := answerTo[attr]
	if !asks {
		return // an answer to what was asked twice
	}
	if attr == mad.AttrREP && x.request(mad.AttrREQ).times >= m.times {
		return // the answer to a REQ that came again
	}
	if same && since < cmDoubledNs {
		f := a.keep(a.newFinding(DuplicateRequest, ib.QPNGSI, p.PSN, p.Frame, was))
		f.conn = x.c
		f.what = func(*Finding) string {
			return fmt.Sprintf(
				"The %v in packet %d is that of packet %d once more, %v later: the network has doubled it.",
				attr, f.Frames[0], was, time.Duration(since))
		}
		return
	}
	if since < cmDoubledNs {
		return // a wait for an answer is longer
	}
	if attr == mad.AttrREQ || attr == mad.AttrREP {
		// Both repeat when one message between them is lost.
		if f := x.request(answerOr(attr)).find; f != nil {
			m.find = f
		}
	}
	if x.askedToWait(a, p, attr, m, was, since) {
		return
	}
	if m.find != nil {
		m.find.add(p.Frame)
		return
	}
	src, dst := p.Flow.Src, p.Flow.Dst
	answer := x.message(back, x.side(dst))
	if rej := x.request(mad.AttrREJ); rej.times > 0 && attr != mad.AttrDREQ {
		back, answer = mad.AttrREJ, rej
	}
	if answer.times > 0 && answer.frame != 0 {
		m.find = a.keep(a.newFinding(CMLost, ib.QPNGSI, p.PSN, answer.last, p.Frame))
		first := answer.last
		m.find.what = func(*Finding) string {
			return fmt.Sprintf("The %v in packet %d did not reach %v, which sent its %v again after %v (packet %d).",
				back, first, src, attr, time.Duration(since), m.find.Frames[1])
		}
	} else {
		m.find = a.keep(a.newFinding(CMLost, ib.QPNGSI, p.PSN, was, p.Frame))
		m.find.Certain = false
		m.find.what = func(*Finding) string {
			return fmt.Sprintf("%v had no answer to its %v in packet %d, and sent it again after %v (packet %d): it, or the %v of %v, was lost, or %v took so long.",
				src, attr, was, time.Duration(since), m.find.Frames[1], back, dst, dst)
		}
	}
	m.find.conn = x.c
}

func (x *exchange) request(a mad.Attribute) *cmMessage { return &x.msgs[int(a)-int(mad.AttrREQ)] }

// noRTU reports that the RTU is missing though the initiator has the connection: it has sent a
// request.
func (x *exchange) noRTU(a *Analyser) {
	if x.dataAt == 0 || x.request(mad.AttrRTU).times > 0 || x.request(mad.AttrREP).find != nil {
		return
	}
	rep := x.request(mad.AttrREP).last
	f := a.keep(a.newFinding(CMLost, ib.QPNGSI, 0, x.dataAt))
	f.conn, f.Certain = x.c, false
	f.what = func(f *Finding) string {
		return fmt.Sprintf("%v took the REP in packet %d, for it sends requests in packet %d, and its RTU is not in the capture: it was lost on the way here. Nobody misses it: requests say the same.",
			x.from, rep, f.Frames[0])
	}
}

// noAnswer reports a REP that nothing followed: neither an RTU nor a request of the initiator.
func (x *exchange) noAnswer(a *Analyser) {
	rep := x.request(mad.AttrREP)
	if rep.times == 0 || rep.find != nil || x.request(mad.AttrRTU).times > 0 || x.request(mad.AttrREQ).find != nil ||
		x.dataAt != 0 || x.rejected || x.c == nil || x.c.closed || x.c.way[0].packets > 0 {
		return
	}
	if rep.times == 1 && a.now-rep.at <= cmUnansweredS*int64(time.Second) {
		return
	}
	f := a.keep(a.newFinding(CMLost, ib.QPNGSI, 0, rep.frame))
	f.conn, f.Certain = x.c, false
	f.what = func(f *Finding) string {
		return fmt.Sprintf("The REP in packet %d had no RTU, and %v sent no request: one of the two messages was lost, or %v has given up.",
			f.Frames[0], x.from, x.from)
	}
}

// end reports what the exchange waits for at the end of the capture. It returns whether somebody
// was asked and never answered.
func (x *exchange) end(a *Analyser) (silentPeer netip.Addr, asked *cmMessage) {
	for _, q := range []struct {
		ask  mad.Attribute
		from int
	}{{mad.AttrREQ, 0}, {mad.AttrDREQ, 0}, {mad.AttrDREQ, 1}, {mad.AttrSIDRReq, 0}} {
		ask, m := q.ask, x.message(q.ask, q.from)
		if m.times == 0 || x.message(answerTo[ask], 1-q.from).times > 0 ||
			ask != mad.AttrDREQ && (x.rejected || x.request(mad.AttrMRA).times > 0) {
			continue
		}
		peer := [2]netip.Addr{x.to, x.from}[q.from]
		if h := a.hosts[peer]; (h == nil || h.heardFrame == 0) &&
			(ask == mad.AttrDREQ || x.request(mad.AttrRTU).times > 0) {
			continue // it has answered before, so that the capture lacks what it sends
		}
		waited := a.now - m.at
		long := m.lastAt-m.at > cmDoubledNs || waited > cmUnansweredS*int64(time.Second)
		if long {
			silentPeer, asked = peer, m
		}
		if m.find == nil {
			m.find = a.keep(a.newFinding(CMLost, ib.QPNGSI, 0, m.frame))
			m.find.conn, m.find.Certain = x.c, false
			first := m.frame
			m.find.what = func(*Finding) string {
				s := fmt.Sprintf("The %v in packet %d to %v had no answer until the end of the capture, %v later.", ask,
					first, peer, time.Duration(waited))
				if !long {
					s += " The capture may have ended too soon."
				}
				return s
			}
		}
	}
	return silentPeer, asked
}
