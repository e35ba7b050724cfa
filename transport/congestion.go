package transport

import (
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/cc"
)

// congestion controls one QP's rate of data: its requests and, except under control by delay, its
// READ responses. Acknowledgements and CNPs are neither limited nor charged. A QP without
// congestion control has none.
//
// The budget that the rate has accumulated sizes a turn in PollTransmit. When it is used up the QP
// sends only control packets and leaves the ready list, until timerPace brings it back.
type congestion struct {
	cfg   cc.Config
	ctl   cc.Controller
	pacer cc.Pacer
	rate  cc.Rate // for this turn; 0: no limit
	open  bool    // this turn may send data
	cuts  uint64  // cuts of ctl that the engine has counted
	// markable is how many packets have left and drawn no CNP, up to maxMarkable.
	markable int
}

// newCongestion returns the congestion control that cfg selects, or nil.
func newCongestion(cfg *cc.Config) *congestion {
	ctl := cfg.New()
	if ctl == nil {
		return nil
	}
	return &congestion{cfg: *cfg, ctl: ctl, pacer: cfg.NewPacer()}
}

// restart forgets what was learned, when a connection begins.
func (c *congestion) restart() {
	*c = congestion{cfg: c.cfg, ctl: c.cfg.New(), pacer: c.cfg.NewPacer()}
}

// Overhead of a RoCE v2 packet on an Ethernet cable beyond its UDP payload: preamble, header, check
// sequence and gap; IP; UDP.
const (
	etherOverhead = 8 + 14 + 4 + 12
	wireOverhead4 = etherOverhead + ib.IPv4HeaderBytes + ib.UDPHeaderBytes
	wireOverhead6 = etherOverhead + ib.IPv6HeaderBytes + ib.UDPHeaderBytes
)

// wireOverhead returns that overhead for the packets of a path.
func wireOverhead(p *Path) int {
	if p.Dst.Is4() {
		return wireOverhead4
	}
	return wireOverhead6
}

// isPaced reports whether the rate applies to a packet: to requests and READ data.
func isPaced(p *TxPacket) bool {
	op := ib.Opcode(p.Header[0])
	return op != ib.CNP && op != ib.RCAcknowledge && (!op.Info().Response || p.PayloadLen != 0)
}

// sendPacedTurn sends one turn of a QP with congestion control.
func (qp *QP) sendPacedTurn(now int64, batch []TxPacket) int {
	c := qp.cc
	qp.ruleWindow(now)
	if c.rate = c.ctl.Rate(now); c.rate == 0 {
		c.rate = c.cfg.Cap()
	}
	qp.countCuts(now)
	budget := c.pacer.Budget(now, c.rate)
	c.open = budget > 0
	overhead := wireOverhead(&qp.path)
	if c.rate != 0 && c.open {
		batch = batch[:min(len(batch), budget/(qp.mtu+overhead)+1)]
	}
	n := qp.takeTurn(now, batch)
	bytes, packets := 0, 0
	for i := range batch[:n] {
		b, p := qp.charge(&batch[i], overhead)
		bytes, packets = bytes+b, packets+p
	}
	if bytes != 0 {
		c.markable = min(c.markable+packets, maxMarkable)
		c.pacer.OnSend(bytes, c.rate)
		c.ctl.OnSend(now, bytes)
	}
	if qp.delay != nil {
		qp.delay.settled(qp, bytes, packets)
	}
	switch {
	case n == len(batch):
		qp.markReady()
	case !c.open && qp.hasPacedWork():
		if !qp.timerSet(timerPace) {
			qp.e.counters.PacingHolds++
		}
		c.pacer.Hold()
		qp.setTimer(timerPace, max(c.pacer.NextAt(), now+1))
	}
	return n
}

// hasPacedWork reports whether the rate may be what stops the QP from sending.
func (qp *QP) hasPacedWork() bool {
	return qp.hasSendableRequests() || qp.delay == nil && qp.resp.out.head != qp.resp.out.tail
}

// hasSendableRequests reports whether there are requests to send that no RNR NAK delays.
func (qp *QP) hasSendableRequests() bool {
	return (qp.sq.q.cur != qp.sq.q.tail || qp.sq.probe.due || qp.sq.dueAgain()) && qp.state >= StateRTS &&
		!qp.sq.retry.rnrWait
}

// pacingHoldsRequests reports whether the rate stops requests on this turn.
func (qp *QP) pacingHoldsRequests() bool { return qp.cc != nil && !qp.cc.open }

// pacingHoldsAnswer reports whether the rate stops the answer a. Under control by delay it never
// does: the requester of a READ controls how much comes.
func (qp *QP) pacingHoldsAnswer(a *answer) bool {
	return qp.cc != nil && !qp.cc.open && a.op == ib.OpRead && qp.delay == nil
}

// paceLimited reports whether the QP sends at a limited rate.
func (qp *QP) paceLimited() bool { return qp.cc != nil && qp.cc.rate != 0 }

// markECT lets switches mark the packets of a path instead of dropping them, if the QP reacts to
// marks.
func (qp *QP) markECT(p *Path) {
	if qp.cc != nil {
		p.TrafficClass = p.TrafficClass&^ECNMask | ECT0
	}
}

// countCuts updates the counter of rate cuts.
func (qp *QP) countCuts(now int64) {
	c := qp.cc
	cuts := c.ctl.State(now).Cuts
	if cuts == c.cuts {
		return
	}
	qp.e.counters.RateCuts += cuts - c.cuts
	c.cuts = cuts
	if t := qp.e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceRateCut, QPN: qp.num})
	}
}

// congestionNAK reports to congestion control a NAK that the requester acts on.
func (qp *QP) congestionNAK(now int64) {
	if qp.cc != nil {
		qp.cc.ctl.OnNAK(now)
		qp.countCuts(now)
	}
}

// Congestion returns the state of the QP's congestion control at now. ok is false if there is none.
func (qp *QP) Congestion(now int64) (s cc.State, ok bool) {
	switch {
	case qp.cc != nil:
		return qp.cc.ctl.State(now), true
	case qp.delay != nil:
		return qp.delay.model.State(now), true
	}
	return cc.State{}, qp.delayed
}
