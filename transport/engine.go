package transport

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/transport/cc"
)

// Engine is one shard of a device: its queue pairs and their timers. The package comment describes
// how to drive it.
type Engine struct {
	cfg      Config
	mtu      ib.MTU // current MTU of the port: see SetMTU
	counters Counters
	qps      map[ib.QPN]*QP
	lastQP   *QP // QP of the last packet: a run of packets needs one lookup

	cqs, srqs, ahs int // that exist

	ready   readyList
	timers  timerQueue
	events  eventQueue
	mcast   mcastTable
	notify  *cc.NotificationPoint // decides when CNPs may be sent; made at the first mark
	probing int                   // QPs with an unanswered loss probe

	flights map[netip.Addr]*flight // packets in flight, by destination
	reading *flight                // READ responses in flight to here; nil: not bounded

	kept  keptPool  // memory of packets kept until their turn
	rx    ib.Packet // the packet being handled
	inRun bool      // rx came in a run
	now   int64     // time of the last call, for completions in a ring
	run   runState  // the run being handled
}

// New returns an engine without QPs. An [ArgError] names the wrong field of cfg.
func New(cfg Config) (*Engine, error) {
	const op = "new engine"
	switch {
	case len(cfg.GIDs) == 0:
		return nil, argError(op, "GIDs", "none")
	case !cfg.MTU.Valid():
		return nil, argError(op, "MTU", fmt.Sprintf("%d is not an MTU", uint8(cfg.MTU)))
	case cfg.Mem == nil:
		return nil, argError(op, "Mem", "missing")
	case cfg.Rand == nil:
		return nil, argError(op, "Rand", "missing")
	case cfg.Tuning.MaxUnackedPackets < 0 || cfg.Tuning.MaxUnackedPackets >= ib.MaxPSNSpan:
		return nil, argError(op, "Tuning.MaxUnackedPackets", fmt.Sprintf("%d is not in 0..%d",
			cfg.Tuning.MaxUnackedPackets, ib.MaxPSNSpan-1))
	case cfg.Tuning.AckReqInterval < 0 || cfg.Tuning.AckReqInterval >= ib.MaxPSNSpan:
		return nil, argError(op, "Tuning.AckReqInterval",
			fmt.Sprintf("%d is not in 0..%d", cfg.Tuning.AckReqInterval, ib.MaxPSNSpan-1))
	}
	for _, t := range [...]struct {
		name  string
		d     time.Duration
		least time.Duration
	}{
		{"LossProbe", cfg.Tuning.LossProbe, math.MinInt64}, {"SeqNAKRearm", cfg.Tuning.SeqNAKRearm, 0},
		{"FatalLinger", cfg.Tuning.FatalLinger, 0}, {"CNPGap", cfg.Tuning.CNPGap, math.MinInt64},
	} {
		if t.d < t.least || t.d > maxTuningTime {
			return nil, argError(op, "Tuning."+t.name, fmt.Sprintf("%v, at most %v", t.d, maxTuningTime))
		}
	}
	if err := cfg.Tuning.Congestion.Check(); err != nil {
		return nil, argError(op, "Tuning.Congestion", err.Error())
	}
	gids := make([]netip.Addr, len(cfg.GIDs))
	for i, a := range cfg.GIDs {
		if !a.IsValid() {
			return nil, argError(op, "GIDs", fmt.Sprintf("entry %d is not an address", i))
		}
		gids[i] = a.Unmap()
	}
	cfg.GIDs = gids
	e := &Engine{cfg: cfg, mtu: cfg.MTU, qps: make(map[ib.QPN]*QP), flights: make(map[netip.Addr]*flight)}
	if n := cfg.Room.Size; n > 0 {
		e.reading = newFlight(&cfg.Room, max(n/4*3, 1), maxFlight)
	}
	return e, nil
}

// HandlePackets calls HandlePacket for each of rx, in order, and contains faults of registered
// memory. It handles packets that differ in little together: see run.go.
func (e *Engine) HandlePackets(now int64, rx []RxPacket) { e.HandleUnverified(now, rx, nil) }

// HandleUnverified is HandlePackets for packets that may be ICRCUnknown. c checks each of these
// right before it is handled, so that its payload is in the fastest cache when it is copied. A
// wrong packet is skipped as if it had not come; without a Checker, all ICRCUnknown packets are.
func (e *Engine) HandleUnverified(now int64, rx []RxPacket, c Checker) {
	e.run.check, e.run.heard = c, 0
	for at := 0; at < len(rx); {
		at += e.handleUpTo(now, rx, at)
	}
	e.run.check = nil
}

// handleUpTo handles packets from at on, up to the first that meets memory that is gone. It returns
// how many it handled, including that one.
func (e *Engine) handleUpTo(now int64, batch []RxPacket, at int) (n int) {
	rx := batch[at:]
	defer func() {
		if v := recover(); v != nil {
			e.lose(v)
			n += e.endRun(1)
			e.faulted(now, e.lastQP, &e.rx)
		}
	}()
	run := 0 // packets of the current run that are left
	for n < len(rx) {
		e.run.at = at + n
		if e.run.heard != 0 && at+n == e.run.heard {
			n++
			run = 0
			continue
		}
		if rx[n].ICRC != ICRCRight && !e.right(rx[n:], 0) {
			n++
			run--
			continue
		}
		if run < 2 {
			run = runLength(rx[n:])
			if j := n + run; at+j != e.run.heard && ackBehind(rx, j-1) && e.right(rx[n:], run) {
				e.HandlePacket(now, &rx[j])
				e.run.heard = at + j
			}
		}
		done := 0
		if run > 1 {
			done = e.handleRun(now, rx[n:n+run])
		}
		if done == 0 {
			e.HandlePacket(now, &rx[n])
			done = 1
		}
		n += done
		run -= done
	}
	return n
}

// HandlePacket handles one received packet. It never fails: a bad packet ends in a counter, a NAK,
// or an error of the QP.
//
// The checks and their order are those of rdma_rxe: packet, QP, transport, state, addresses, P_Key,
// Q_Key. The last one, the ICRC, is the link's.
func (e *Engine) HandlePacket(now int64, rx *RxPacket) {
	p := &e.rx
	e.now = now
	e.inRun = rx.InRun
	if err := p.Decode(rx.Data); err != ib.DecodeOK {
		e.dropUndecodable(now, err)
		return
	}
	if p.DestQP == ib.QPNMulticast {
		e.handleMulticast(now, p, rx)
		return
	}
	qp := e.find(p.DestQP)
	if qp == nil {
		e.drop(now, p, &e.counters.DropNoQP, "no such QP")
		return
	}
	info := p.Opcode.Info()
	if !e.admit(now, qp, p, info, rx) {
		return
	}
	if t := e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceRxPacket, QPN: qp.num, Opcode: p.Opcode, PSN: p.PSN})
	}
	e.counters.RcvdPkts++
	e.counters.RcvdBytes += uint64(len(rx.Data))
	marked := rx.TrafficClass&ECNMask == ECNCE
	next, una, psn := qp.resp.next, qp.sq.una, p.PSN // handling kept packets overwrites p
	switch info.Transport {
	case ib.RC:
		if info.Response {
			qp.sq.handleResponse(now, p)
		} else {
			qp.resp.handleRequest(now, p)
		}
	case ib.UC:
		qp.handleUC(now, p)
	case ib.UD:
		qp.handleUD(now, p, rx)
	case ib.TransportCNP:
		qp.handleCNP(now, p)
	}
	if marked {
		e.counters.CEMarkedPkts++
		// The packet was taken, and in order, so it is almost surely the peer's.
		if qp.resp.next != next && psn == psnOf(next) || qp.sq.una != una {
			qp.handleCE(now)
		}
	}
}

// find returns the QP with number n, or nil.
func (e *Engine) find(n ib.QPN) *QP {
	if qp := e.lastQP; qp != nil && qp.num == n {
		return qp
	}
	qp := e.qps[n]
	if qp != nil {
		e.lastQP = qp
	}
	return qp
}

// admit checks that the QP may receive a packet. It counts a refused one.
func (e *Engine) admit(now int64, qp *QP, p *ib.Packet, info *ib.OpcodeInfo, rx *RxPacket) bool {
	c, why := e.refusal(qp, p, info, rx)
	if c != nil {
		e.drop(now, p, c, why)
		return false
	}
	return true
}

// refusal returns the counter and the reason if the QP may not receive a packet, by transport,
// state, addresses, P_Key and Q_Key; else nil.
func (e *Engine) refusal(qp *QP, p *ib.Packet, info *ib.OpcodeInfo, rx *RxPacket) (counter *uint64, why string) {
	c := &e.counters
	if info.Transport != qp.typ && (info.Transport != ib.TransportCNP || qp.typ == ib.UD) {
		return &c.DropQPType, "opcode of another transport"
	}
	if !qp.receives(info) {
		return &c.DropState, "QP not ready"
	}
	if qp.typ == ib.UD {
		if !e.isLocal(rx.Dst) {
			return &c.DropAddress, "not to an address of this device"
		}
	} else if rx.Src != qp.path.Dst || rx.Dst != qp.path.Src {
		return &c.DropAddress, "not from or to an address of the connection"
	}
	if !ib.PKeyDefault.Match(p.PKey) {
		return &c.DropPKey, "P_Key"
	}
	if qp.typ == ib.UD && p.DETH.QKey != qp.attr.QKey {
		return &c.DropQKey, "Q_Key"
	}
	return nil, ""
}

// receives reports whether the QP accepts an opcode in its state (IBTA 10.3.1): requests from RTR
// on, responses from RTS on. In ERR only a responder that still repeats its last NAK gets requests.
func (qp *QP) receives(info *ib.OpcodeInfo) bool {
	switch qp.state {
	case StateRTS, StateSQD, StateSQE:
		return true
	case StateRTR:
		return !info.Response
	case StateErr:
		return info.Transport == ib.RC && !info.Response && qp.resp.lingers()
	}
	return false
}

// isLocal reports whether a is an address of this device, or a multicast group: the link delivers
// only joined groups.
func (e *Engine) isLocal(a netip.Addr) bool {
	for _, g := range e.cfg.GIDs {
		if g == a {
			return true
		}
	}
	return a.IsMulticast()
}

// dropUndecodable counts data that is not a packet.
func (e *Engine) dropUndecodable(now int64, err ib.DecodeError) {
	c := &e.counters.DropMalformed
	if err == ib.ErrUnknownOpcode {
		c = &e.counters.DropOpcode // no NAK: IBTA 9.6.1, as rxe
	}
	*c++
	if t := e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceDrop, Detail: err.Error()})
	}
}

// drop counts and traces a refused packet.
func (e *Engine) drop(now int64, p *ib.Packet, c *uint64, why string) {
	*c++
	if t := e.cfg.Tracer; t != nil {
		t.Trace(TraceEvent{Now: now, Kind: TraceDrop, QPN: p.DestQP, Opcode: p.Opcode, PSN: p.PSN, Detail: why})
	}
}

// PollTransmit fills batch with packets to send and returns how many; 0 means that there is nothing
// to send now. Packets of one QP follow each other, so that a link can send them as one segmented
// datagram. The descriptors are valid until the next call of any engine method.
func (e *Engine) PollTransmit(now int64, batch []TxPacket) int {
	e.now = now
	n := 0
	for n < len(batch) {
		qp := e.ready.head
		if qp == nil {
			break
		}
		qp.unready()
		turn := batch[n:min(n+txQuantum, len(batch))]
		sent := qp.sendTurn(now, turn)
		if sent == len(turn) {
			qp.markReady() // it may have more
		}
		n += sent
	}
	e.sent(now, batch[:n])
	return n
}

// sent counts and traces departing packets.
func (e *Engine) sent(now int64, batch []TxPacket) {
	bytes := 0
	for i := range batch {
		bytes += batch[i].UDPPayloadLen()
	}
	e.counters.SentPkts += uint64(len(batch))
	e.counters.SentBytes += uint64(bytes)
	if t := e.cfg.Tracer; t != nil {
		for i := range batch {
			op, psn := batch[i].OpcodeAndPSN()
			t.Trace(TraceEvent{Now: now, Kind: TraceTxPacket, QPN: batch[i].SrcQP, Opcode: op, PSN: psn})
		}
	}
}

// PollEvent returns the next notification, or false if there is none.
func (e *Engine) PollEvent() (Event, bool) { return e.events.pop() }

// Counters returns a copy of the counters.
func (e *Engine) Counters() Counters { return e.counters }
