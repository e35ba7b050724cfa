package transport

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/cc"
)

// byDelay is congestion control by round trips (cc.Delay): of what the requester sends, and of what its READs ask
// for. A queue pair has none until a round trip takes longer than the target. As long as that has not happened,
// or is over, nothing is counted, paced, or limited but by the window, which grows from a few packets when a connection
// begins. While it limits, it is QP.cc, and the window is what it says.
type byDelay struct {
	model  cc.Delay
	active congestion // QP.cc

	// At the end of the round before; at the beginning, when the packet that is timed left. All that arrives is of one
	// round: the first packet of a READ's answer ends a round, and what comes behind it is of the next.
	una    ib.PSN
	have   int // of missing.arrived
	from   int64
	counts bool // these are valid
	sent   int  // packets since the one before that was timed
	took   int64
	// The last packet that was timed.
	lastAt    int64 // 0: none
	lastPSN   ib.PSN
	lastAgain uint32 // of requester.sentAgain
	ready     bool   // a packet is timed
	newsAt    int64  // when the peer was last found to have more

	bytes, packets int   // that left since then
	gap            int64 // longest between two times when the peer was found to have more
	lost           int   // that were found lost
	idle           bool  // nothing was left to send
	wasIdle        bool  // when the packet that is timed left
}

// startWindow is the window of a QP with control by delay at the beginning of a connection. It doubles with each
// round trip.
const startWindow = 8

// ceilingPackets is the most that control by delay lets a QP have on its way, unless MaxUnackedPackets is set: where
// the path is long, that is more than without control.
const ceilingPackets = 4096

// timed notes that the packet that the requester has just sent is timed.
func (d *byDelay) timed(now int64, sq *requester) {
	d.ready = true
	if !d.counts {
		d.counts, d.una, d.have, d.from = true, sq.una, sq.have(), d.newsAt
	}
	d.sent, d.took = 0, 0
	if d.lastAt != 0 {
		d.sent = span(d.lastPSN, sq.psn) + int(sq.sentAgain-d.lastAgain)
		d.took = now - d.lastAt
	}
	d.wasIdle, d.idle = d.idle, false
}

// have returns how many packets behind una the peer is known to have.
func (sq *requester) have() int {
	if !sq.watching() {
		return 0
	}
	return sq.miss.arrived
}

// roundTrip tells control by delay of a round trip: of the packet that was timed last. late says that its answer waited for
// what was lost before it.
func (qp *QP) roundTrip(now int64, late bool) {
	sq, d := &qp.sq, qp.delay
	rtt := now - sq.rtt.sentAt
	if d == nil {
		if rtt > qp.delayTarget() {
			qp.delay = qp.newByDelay(now)
		}
		return
	}
	if !d.ready {
		return
	}
	r := cc.Round{
		RTT: rtt, Arrived: max(span(d.una, sq.una)+sq.have()-d.have, 0), ArriveNs: now - d.from, Sent: d.sent, SendNs: d.took,
		GapNs: d.gap, Lost: d.lost, Idle: d.wasIdle, Late: late, Bytes: qp.mtu + wireOverhead(&qp.path),
	}
	if d.packets > 0 {
		r.Bytes = d.bytes / d.packets
	}
	d.lastAt, d.lastPSN, d.lastAgain = sq.rtt.sentAt, sq.rtt.psn, sq.sentAgain
	d.ready, d.lost, d.bytes, d.packets, d.gap = false, 0, 0, 0, 0
	d.una, d.have, d.from = sq.una, sq.have(), now
	d.model.OnRound(now, &r)
	if d.model.Free() != (qp.cc == nil) {
		qp.switchDelay(d.model.Free())
	}
	qp.ruleWindow(now)
}

// ruleWindow makes the window what control by delay says.
func (qp *QP) ruleWindow(now int64) {
	if qp.cc != nil && qp.delay != nil {
		qp.sq.win.rule(qp.delay.model.Window(now))
	}
}

// delayTarget returns the target.
func (qp *QP) delayTarget() int64 {
	if t := qp.e.cfg.Tuning.Congestion.Target; t != 0 {
		return int64(t)
	}
	return int64(cc.DefaultTarget)
}

// newByDelay returns the state of control by delay when the first round trip took long.
func (qp *QP) newByDelay(now int64) *byDelay {
	w := &qp.sq.win
	most, ceiling := w.max<<w.long, ceilingPackets
	if qp.attr.MaxUnackedPackets > 0 || qp.e.cfg.Tuning.MaxUnackedPackets > 0 {
		ceiling = most
	}
	d := &byDelay{model: *cc.NewDelay(time.Duration(qp.delayTarget()), most, ceiling)}
	d.model.Begin(qp.sq.rtt.least)
	d.newsAt = now
	if w.doubling {
		w.doubling = false
		d.model.Doubt()
	}
	return d
}

// switchDelay begins to control the QP, or ends it.
func (qp *QP) switchDelay(free bool) {
	w := &qp.sq.win
	if free {
		qp.cc = nil
		qp.path.TrafficClass, qp.path.Link = qp.attr.AV.TrafficClass&^ECNMask, nil
		qp.stopTimer(timerPace)
		w.release(qp)
		qp.markReady()
		return
	}
	d := qp.delay
	conf := &qp.e.cfg.Tuning.Congestion
	d.active = congestion{ctl: &d.model, pacer: conf.NewPacer()}
	qp.cc = &d.active
	qp.markECT(&qp.path)
	qp.path.Link = nil
}

// charge returns what a packet of the QP costs on the cable, of those that the rate applies to: for control by
// delay a READ costs what it asks for.
func (qp *QP) charge(p *TxPacket, overhead int) (bytes, packets int) {
	if qp.delay == nil {
		if !isPaced(p) {
			return 0, 0
		}
		return p.UDPPayloadLen() + overhead, 1
	}
	switch op := ib.Opcode(p.Header[0]); {
	case op == ib.CNP || op.Info().Response:
		return 0, 0
	case op == ib.RCReadRequest:
		n := int(binary.BigEndian.Uint32(p.Header[ib.BTHBytes+12:])) // of the RETH
		packets = max((n+qp.mtu-1)/qp.mtu, 1)
		return n + packets*(overhead+ib.BTHBytes+ib.ICRCBytes), packets
	}
	return p.UDPPayloadLen() + overhead, 1
}

// settled follows a turn of a QP that is controlled by delay.
func (d *byDelay) settled(qp *QP, bytes, packets int) {
	d.bytes += bytes
	d.packets += packets
	if !qp.hasSendableRequests() {
		d.idle = true
	}
}

// news tells control by delay that the peer was found to have more, and if trip of the round trip that ended with that.
func (qp *QP) news(now int64, trip, late bool) {
	if d := qp.delay; d != nil {
		d.gap = max(d.gap, now-d.newsAt)
	}
	if trip && (!late || qp.cc != nil) {
		qp.roundTrip(now, late)
	}
	if d := qp.delay; d != nil {
		d.newsAt = now
		d.model.OnProgress()
	}
}

// lostPackets tells control by delay of packets that were found lost.
func (qp *QP) lostPackets(n int) {
	if qp.delay != nil {
		qp.delay.lost += n
	}
}

// farTimeout is the ACK timeout by which a round trip is judged to be that of a peer that is behind: none
// if the path is known to be long.
func (qp *QP) farTimeout() int64 {
	if qp.sq.win.ruled {
		return math.MaxInt64
	}
	return qp.attr.Timeout.Ns()
}
