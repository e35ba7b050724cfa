package analyse

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/pcap"
)

// half is the requests of one end of a connection, and the answers to them.
type half struct {
	a    *Analyser
	c    *conn
	side int // the requester

	begun   bool
	first   ib.PSN // of the first request that was seen
	next    ib.PSN // one past the highest that was seen
	una     ib.PSN // the first that was not acknowledged
	loose   uint32 // length of the READ before next, whose PSNs are not known
	looseOp *operation
	sent    window
	gaps    []gap
	answers window // READ responses
	holes   []gap  // in the responses

	cur  *operation // a message whose last packet has not come
	msgs queue      // SENDs and WRITEs that are not acknowledged
	own  queue      // READs, atomics and others that have answers of their own; also past ones
	ops  map[string]*OpCount
	nOps int

	nak     nak      // the last sequence NAK
	drawn   []ib.PSN // of sequence NAKs that the requester has not begun to answer yet
	rnr     nak      // the last RNR NAK
	fatal   *Finding
	resume  ib.PSN // what follows what was last sent again
	going   bool   // requests are being sent again
	cause   Cause
	pending *silence // sent again for want of an answer, and not answered yet
	last    lastAck
	acks    [recentAcks]ackSeen
	nAcks   int
	owed    int // answers that requests seen again may draw
	owedAt  int64
	dups    int // requests doubled by the network, whose answers may come twice
	confirm *doubt
	conduct *conduct // nil if it is not judged

	sinceGood []*Finding // since something new was answered

	silences   int // timeouts in a row
	silentAt   int64
	silentGap  int64 // between the last two
	silentPSN  ib.PSN
	silentLast *Finding

	keys       keys
	firstFrame int  // of the first request that was seen
	settled    int  // how often all was answered
	clean      bool // nothing is under way that was sent before the capture
	maxAcked   int  // bytes of the longest packet that was acknowledged
	maxWire    int  // of the longest that was seen
	full       bool // a FIRST or MIDDLE packet was seen
	starved    *starvation
	ce, cnp    *Finding
	firstAt    int64
	lastDone   int64
	packets    int
	nAnswers   int
	again      int
	timeouts   int
	seqNAKs    int
	rnrNAKs    int
	nCE, nCNP  int
	nACKs      int
	nACKReqs   int
	cnpAt      int64
	cnpGap     int64 // the shortest between two CNPs
	missing    int
	payload    int64
	lat, rtt   histogram
	turn       int64 // the shortest time from an answer to the next request, 0 for none
	answeredAt int64
	udp        datagrams
	lastReqAt  int64
	pause      int64 // between the last two requests
}

// gap is PSNs that were left out: [from, to).
type gap struct {
	from, to ib.PSN
	frame    int // of the packet that showed it
	at       int64
	find     *Finding
	again    bool       // among packets that were sent again
	op       *operation // of responses
	asked    int        // how often op had been asked for then
}

// nak is a NAK that the requester has to do something about.
type nak struct {
	valid    bool
	answered bool // the requester has sent again
	psn      ib.PSN
	frame    int
	at       int64
	resentAt int64
	then     ib.PSN // what comes behind that
	code     ib.RNRCode
	find     *Finding
	count    int
}

// silence is a request that was sent again because nothing came.
type silence struct {
	psn    ib.PSN
	rec    record
	frames []int
	at     int64 // the last time
	first  int64
	op     *operation
	resent int    // packets that were sent again with it
	tail   ib.PSN // what had not been seen yet when it was sent again
	whole  bool   // the last message had its end by then
	pause  int64  // since the last request before it was sent again
}

// doubt is a finding that the next answers may make certain.
type doubt struct {
	find   *Finding
	psn    ib.PSN
	at     int64 // of the NAK
	again  int64 // when it was sent again, 0: not yet
	ackReq bool
	early  bool // it may have come before one that was missed
}

type lastAck struct {
	valid bool
	psn   ib.PSN
	aeth  ib.AETH
	ident uint16
	frame int
	at    int64
}

type ackSeen struct {
	psn   ib.PSN
	frame int
	at    int64
}

type starvation struct {
	frame, restored int
	at, restoredAt  int64
	psn             ib.PSN
}

const (
	recentAcks = 64
	maxGaps    = 256
	maxOwn     = 256
	// restart is a jump of PSNs that no window explains: another connection with the same
	// numbers, or a capture with a hole.
	restart = 1 << 16

	// doubledNs is how far apart the network delivers a packet twice: no requester sends again
	// so soon without a NAK.
	doubledNs = 300_000
	// surelyDoubledNs is how far apart no requester at all sends something again by itself.
	surelyDoubledNs = 5_000
	// reorderNs is how late an overtaken packet is at most; after that it was sent again.
	reorderNs = 1_000_000
)

// find puts a finding about this direction into the report.
func (h *half) find(k Kind, psn ib.PSN, frames ...int) *Finding {
	f := h.a.newFinding(k, h.c.ends[1-h.side].QPN, psn, frames...)
	f.conn, f.half, f.early = h.c, h, !h.clean
	if len(h.sinceGood) < maxFindingFrames {
		h.sinceGood = append(h.sinceGood, f)
	}
	return h.a.keep(f)
}

// findBack is find for a packet to the requester.
func (h *half) findBack(k Kind, psn ib.PSN, frames ...int) *Finding {
	f := h.find(k, psn, frames...)
	f.QPN = h.c.ends[h.side].QPN
	return f
}

func (h *half) requester() string { return h.c.ends[h.side].Addr.String() }
func (h *half) responder() string { return h.c.ends[1-h.side].Addr.String() }

// atRequester reports whether the capture is from the requester's host; atResponder the other.
func (h *half) atRequester() bool {
	local, known := h.a.local(h.c.ends[h.side].Addr, h.c.ends[1-h.side].Addr)
	return known && local
}

func (h *half) atResponder() bool {
	local, known := h.a.local(h.c.ends[1-h.side].Addr, h.c.ends[h.side].Addr)
	return known && local
}

// reliable reports whether requests are answered at all.
func (h *half) reliable() bool { return h.c.transport == ib.RC }

// request handles a request.
func (h *half) request(p *pcap.Packet, info *ib.OpcodeInfo, n *Note) {
	h.packets++
	h.pause, h.lastReqAt = p.AtNs-h.lastReqAt, p.AtNs
	if h.firstAt == 0 {
		h.firstAt = p.AtNs
	}
	h.payload += int64(p.PayloadBytes)
	h.maxWire = max(h.maxWire, p.Bytes)
	if p.AckReq {
		h.nACKReqs++
	}
	if info.Headers&ib.HasIETH != 0 {
		h.keys.invalidated(p.IETH, p.Frame)
	}
	if info.Payload == ib.PayloadFull {
		h.full = true
		h.learnMTU(p.PayloadBytes)
	}
	d := p.PSN.Diff(h.next)
	if h.begun && (d > restart || d < -restart) {
		h.restart()
	}
	if !h.begun {
		h.firstFrame = p.Frame
		h.begun, h.first, h.next, h.una = true, p.PSN, p.PSN, p.PSN
		d = 0
	}
	if h.loose != 0 && d >= 0 {
		d = h.tighten(p.PSN)
	}
	switch {
	case d >= 0:
		if d > 0 {
			h.skipped(p)
		}
		h.fresh(p, info, n)
	case h.sent.get(p.PSN) != nil:
		h.repeated(h.sent.get(p.PSN), p, info, n)
	default:
		h.old(p, info, n)
	}
}

// restart forgets the sequence: it begins anew.
func (h *half) restart() {
	h.begun, h.gaps, h.holes, h.cur, h.loose = false, nil, nil, nil, 0
	h.sent.forget()
	h.answers.forget()
	h.msgs.ops, h.own.ops = nil, nil
	h.nak, h.rnr, h.pending, h.confirm, h.starved = nak{}, nak{}, nil, nil, nil
	h.last, h.owed, h.dups, h.going, h.silences = lastAck{}, 0, 0, false, 0
	h.silentLast = nil
}

// fresh handles a request that is further than any before.
func (h *half) fresh(p *pcap.Packet, info *ib.OpcodeInfo, n *Note) {
	if h.going && h.cause == CauseNAK && h.resume.Diff(p.PSN) < 0 && h.nAnswers > 0 {
		if from := h.resume; !h.onTheirWay() {
			// The rest of what is sent again is missing.
			if h.una.Diff(from) > 0 {
				from = h.una
			}
			if from.Diff(p.PSN) < 0 {
				h.gapAgainFrom(from, p)
			}
		}
	}
	h.going = false
	if h.answeredAt != 0 {
		if t := p.AtNs - h.answeredAt; t > 0 && (h.turn == 0 || t < h.turn) {
			h.turn = t
		}
		h.answeredAt = 0
	}
	r := h.sent.put(p.PSN, h.una)
	r.opcode, r.wire, r.frame, r.last, r.at, r.lastAt = p.Opcode, p.Bytes, p.Frame, p.Frame, p.AtNs, p.AtNs
	r.ident, r.ackReq, r.lastReq = p.Ident, p.AckReq, p.AckReq
	span := h.span(p)
	h.next = p.PSN.Add(max(span, 1))
	r.op = h.operate(p, info, span)
	if r.op != nil {
		n.Operation = r.op.number
		if info.Op == ib.OpRead && span == 0 {
			h.loose, h.looseOp = p.RETH.Len, r.op
		}
	}
	if s := h.starved; s != nil && s.restored != 0 {
		h.starved = nil
		if rtt := h.rtt.min; info.Op == ib.OpSend && s.restoredAt-s.at > max(50_000, 4*rtt) &&
			p.AtNs-s.restoredAt < max(20_000, 2*rtt) {
			h.hungry(s, p)
		}
	}
	if !h.reliable() {
		h.una = h.next
		h.unreliableDone(r.op, p)
	}
}

// hungry reports that the requester waited for credits.
func (h *half) hungry(s *starvation, p *pcap.Packet) {
	f := h.findBack(CreditsExhausted, s.psn, s.frame, s.restored, p.Frame)
	f.Certain = false
	wait := time.Duration(s.restoredAt - s.at)
	f.what = func(*Finding) string {
		return fmt.Sprintf("%s told %s in packet %d that it has no receive posted (0 credits). New credits came %v later, in packet %d, and the next message right after them. That the sender waited for them is likely, not proved.",
			h.responder(), h.requester(), s.frame, wait, s.restored)
	}
}
