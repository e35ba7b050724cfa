package transport

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/cc"
)

// byDelay controls congestion by round trips (cc.Delay): both for sent packets and for those that
// READs request. A queue pair has none until a round trip exceeds the target. Before that, and once
// control is released, only the window limits; nothing is counted or paced. While control limits,
// it is QP.cc and rules the window.
type byDelay struct {
	model  cc.Delay
	active congestion // QP.cc

	// State at the end of the last round; at first, when the timed packet left. A READ answer's
	// first packet ends a round; those behind it belong to the next.
	una    ib.PSN
	have   int // missing.arrived
	from   int64
	counts bool // these fields are valid
	sent   int  // packets since the previously timed one
	took   int64
	// The packet timed last.
	lastAt    int64 // 0: none
	lastPSN   ib.PSN
	lastAgain uint32 // requester.sentAgain then
	ready     bool   // a packet is being timed
	newsAt    int64  // when the peer was last found to have more

	bytes, packets int   // sent since then
	gap            int64 // longest time between two such finds
	lost           int   // packets found lost
	idle           bool  // nothing was left to send
	wasIdle        bool  // idle when the timed packet left
}

// ceilingPackets is the most that control by delay lets a QP have in flight, unless
// MaxUnackedPackets is set. On a long path that exceeds the window without control.
const ceilingPackets = 4096

// timed notes that the packet just sent is being timed.
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

// roundTrip reports the round trip of the packet timed last to control by delay. late says that its
// answer waited for a packet lost before it.
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
		RTT: rtt, Arrived: max(span(d.una, sq.una)+sq.have()-d.have, 0), ArriveNs: now - d.from,
		Sent: d.sent, SendNs: d.took, GapNs: d.gap, Lost: d.lost, Idle: d.wasIdle, Late: late, Bytes: qp.mtu +
			wireOverhead(&qp.path),
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

// ruleWindow sets the window to what control by delay demands.
func (qp *QP) ruleWindow(now int64) {
	if qp.cc != nil && qp.delay != nil {
		qp.sq.win.rule(qp.delay.model.Window(now))
	}
}

// delayTarget returns the target of control by delay, in nanoseconds.
func (qp *QP) delayTarget() int64 {
	if t := qp.control.Target; t != 0 {
		return int64(t)
	}
	return int64(cc.DefaultTarget)
}

// newByDelay returns the state of control by delay after the first long round trip.
func (qp *QP) newByDelay(now int64) *byDelay {
	w := &qp.sq.win
	most, ceiling := w.max, ceilingPackets
	if qp.explicitWindow() {
		ceiling = most
	}
	d := &byDelay{model: *cc.NewDelay(time.Duration(qp.delayTarget()), most, ceiling)}
	d.model.Begin(qp.sq.rtt.least)
	d.newsAt = now
	if w.starting() {
		w.goal = 0
		d.model.Doubt()
	}
	return d
}

// switchDelay begins to control the QP, or releases it.
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
	d.active = congestion{ctl: &d.model, pacer: qp.control.NewPacer()}
	qp.cc = &d.active
	qp.markECT(&qp.path)
	qp.path.Link = nil
}

// charge returns what a packet costs on the cable if the rate applies to it, else 0. Under control
// by delay a READ request costs what it requests.
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
		n := int(binary.BigEndian.Uint32(p.Header[ib.BTHBytes+12:])) // length in the RETH
		packets = max((n+qp.mtu-1)/qp.mtu, 1)
		return n + packets*(overhead+ib.BTHBytes+ib.ICRCBytes), packets
	}
	return p.UDPPayloadLen() + overhead, 1
}

// settled accounts for a turn of a QP under control by delay.
func (d *byDelay) settled(qp *QP, bytes, packets int) {
	d.bytes += bytes
	d.packets += packets
	if !qp.hasSendableRequests() {
		d.idle = true
	}
}

// news reports that the peer has more packets and, if trip, that a round trip ended with them.
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

// lostPackets reports n packets found lost to control by delay.
func (qp *QP) lostPackets(n int) {
	if qp.delay != nil {
		qp.delay.lost += n
	}
}

// farTimeout returns the ACK timeout against which onRTT judges a slow peer: at least twice the
// shortest round trip, and none if the path is known to be long.
func (sq *requester) farTimeout() int64 {
	if sq.win.ruled {
		return math.MaxInt64
	}
	ns := sq.qp.attr.Timeout.Ns()
	return max(ns, min(2*sq.rtt.least, ns*maxTimeouts))
}
