package transport

import (
	"bytes"
	"encoding/binary"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/mem"
)

// A run is a sequence of packets that arrive together and differ only in PSN, which counts up,
// AckReq, the extended headers and the payload. The common part is checked once: opcode, QP and its
// state, addresses, P_Key, rights of the QP, length. Only the effect of each packet remains.
//
// A run has the same effect as its packets one by one: HandlePacket takes every packet that meets
// anything not covered in this file. TestRunsAreAsPackets plays the same packets both ways. Faults
// of memory are contained as elsewhere: everything before the packet that met one is done.
//
// Headers may be compared before the ICRC is checked. That has no effect: a wrong packet ends the
// run before it, and later ones form another.

// runState is the run being handled.
type runState struct {
	size  int     // size of each packet in bytes; 0 for no run
	done  int     // packets handled
	all   uint64  // packets in all runs so far
	check Checker // checks packets that are ICRCUnknown
	at    int     // index of the first packet in the batch
	heard int     // index of an ACK handled before the request in front of it; 0 for none
}

// right reports whether packet i of a run has the right ICRC. Call it just before handling that.
func (e *Engine) right(rx []RxPacket, i int) bool {
	p := &rx[i]
	if p.ICRC == ICRCUnknown {
		p.ICRC = ICRCWrong
		if e.run.check != nil && e.run.check.Check(e.run.at+i, p) {
			p.ICRC = ICRCRight
		}
	}
	return p.ICRC == ICRCRight
}

// runs are the opcodes that form runs.
var runs = [256]bool{
	ib.RCWriteMiddle: true, ib.RCSendMiddle: true, ib.RCReadRespMiddle: true,
	ib.RCWriteOnly: true, ib.RCSendOnly: true, ib.RCReadRespOnly: true,
}

// runLength returns how many of rx form a run. Packets with a congestion mark form none.
func runLength(rx []RxPacket) int {
	a := &rx[0]
	if len(a.Data) < ib.BTHBytes || !runs[a.Data[0]] || a.TrafficClass&ECNMask == ECNCE {
		return 1
	}
	const ackReq = 1 << 31
	head := binary.BigEndian.Uint64(a.Data)
	last := binary.BigEndian.Uint32(a.Data[8:]) &^ ackReq
	n := 1
	for n < len(rx) {
		b := &rx[n]
		if len(b.Data) != len(a.Data) || binary.BigEndian.Uint64(b.Data) != head {
			break
		}
		w := binary.BigEndian.Uint32(b.Data[8:]) &^ ackReq
		if w != last&^ib.PSNMask|(last+1)&ib.PSNMask ||
			b.TrafficClass != a.TrafficClass || b.InRun != a.InRun || b.Src != a.Src || b.Dst != a.Dst {
			break
		}
		last = w
		n++
	}
	return n
}

// ackBehind reports whether packet i is a request, and the next one an ACK for the same queue pair
// in a shared datagram. Peers of this project put it there because the smallest segment must be
// last, but it answers earlier packets. It is handled first, so that a SEND completes before its
// answer comes. Nothing promises that, but cards and rdma_rxe do, and tgt's iSER target needs it.
func ackBehind(rx []RxPacket, i int) bool {
	if i+1 >= len(rx) || !rx[i+1].InRun {
		return false
	}
	a, b := rx[i].Data, rx[i+1].Data
	return len(b) >= ib.BTHBytes && ib.Opcode(b[0]) == ib.RCAcknowledge && len(a) >= ib.BTHBytes &&
		!ib.Opcode(a[0]).Info().Response && bytes.Equal(a[5:8], b[5:8])
}

// handleRun handles the packets of a run, or the first few, and returns how many; 0 if the first
// must be handled by itself. With a tracer there are no runs.
func (e *Engine) handleRun(now int64, rx []RxPacket) int {
	p := &e.rx
	if e.cfg.Tracer != nil || p.Decode(rx[0].Data) != ib.DecodeOK {
		return 0
	}
	qp, info := e.find(p.DestQP), p.Opcode.Info()
	if qp == nil {
		return 0
	}
	if c, _ := e.refusal(qp, p, info, &rx[0]); c != nil {
		return 0
	}
	e.now, e.inRun = now, rx[0].InRun
	e.run.size = len(rx[0].Data)
	if info.Response {
		qp.sq.handleRun(now, p, rx)
	} else {
		qp.resp.handleRun(now, p, rx)
	}
	return e.endRun(0)
}

// endRun counts the handled packets of a run, and more that were begun, and returns their sum.
func (e *Engine) endRun(more int) int {
	n := e.run.done + more
	if e.run.size > 0 {
		e.counters.RcvdPkts += uint64(n)
		e.counters.RcvdBytes += uint64(n * e.run.size)
		e.run.all += uint64(n)
	}
	e.run.size, e.run.done = 0, 0
	return n
}

// handleRun executes packets of SENDs and WRITEs, the first of which is p, until one is refused.
func (r *responder) handleRun(now int64, p *ib.Packet, rx []RxPacket) {
	qp, run, info := r.qp, &r.qp.e.run, p.Opcode.Info()
	if p.PSN != psnOf(r.next) || r.fatal.active || r.kept.n != 0 || r.checkSequence(info) != pass ||
		r.checkRights(p, info) != pass || r.checkLength(p, info) != pass {
		return
	}
	if info.Pos&ib.Last == 0 {
		rx = rx[:r.msg.runRoom(info, len(p.Payload), len(rx))]
	}
	if len(rx) == 0 {
		return
	}
	if qp.state == StateRTR || qp.watchFirst {
		qp.commEstablished()
	}
	if p.Resv7 != 0 {
		r.learn(p)
	}
	if r.nak.latch != nakNone {
		r.repaired(now)
		r.stopNAK()
	}
	if info.Pos&ib.Last == 0 {
		r.placeRun(p, info, rx)
		return
	}
	for i := range rx {
		if i > 0 {
			if rx[i].ICRC != ICRCRight && !qp.e.right(rx, i) {
				return
			}
			p.DecodeNext(rx[i].Data)
		}
		var v verdict
		if info.Op == ib.OpWrite {
			v = r.doWrite(p, info)
		} else if v = r.takeBuffers(len(p.Payload)); v == pass {
			v = r.doSend(p, info)
		}
		if v != pass {
			r.refuse(now, p, v)
			run.done++
			return
		}
		r.executed(p, info)
		run.done++
	}
}

// runRoom returns how many of n MIDDLE packets of size bytes fit in the message, 0 if its memory is
// gone. A WRITE leaves room for its last packet.
func (m *message) runRoom(info *ib.OpcodeInfo, size, n int) int {
	if info.Op == ib.OpWrite {
		if !m.view.Valid() || m.length <= m.done {
			return 0
		}
		return min(n, int(m.length-m.done-1)/size)
	}
	if !m.sgl.Valid() {
		return 0
	}
	return min(n, int(min(m.cur.Left(), MaxMessage-uint64(m.done)))/size)
}

// placeRun executes MIDDLE packets for which runRoom found room.
func (r *responder) placeRun(p *ib.Packet, info *ib.OpcodeInfo, rx []RxPacket) {
	m, run := &r.msg, &r.qp.e.run
	size, from := len(p.Payload), p.HeaderLen
	write := info.Op == ib.OpWrite
	for i := range rx {
		if rx[i].ICRC != ICRCRight && !r.qp.e.right(rx, i) {
			return
		}
		b := rx[i].Data
		if write {
			copy(m.view.Bytes[m.done:], b[from:from+size])
		} else {
			m.cur.CopyIn(b[from : from+size])
		}
		m.done += uint32(size)
		r.next++
		if b[8]&0x80 != 0 {
			r.acknowledge()
		}
		run.done++
	}
}

// handleRun handles responses to READs, the first of which is p. They directly follow the last one
// taken, so they imply nothing else.
func (sq *requester) handleRun(now int64, p *ib.Packet, rx []RxPacket) {
	q := &sq.q
	rx = rx[:min(len(rx), span(sq.una, sq.end))]
	if len(rx) == 0 || p.PSN != sq.una || q.head == q.tail || sq.kept.n != 0 || sq.watching() {
		return
	}
	if info := p.Opcode.Info(); info.Pos&ib.Last == 0 {
		sq.deliverRun(now, p, rx)
	} else {
		sq.completeRun(now, p, rx)
	}
}

// deliverRun handles MIDDLE responses to the READ at head.
func (sq *requester) deliverRun(now int64, p *ib.Packet, rx []RxPacket) {
	w, mtu := sq.q.at(sq.q.head), sq.qp.mtu
	idx := uint32(span(w.psn, sq.una))
	if w.op != WRRead || len(p.Payload) != mtu || p.Pad != 0 || idx >= w.npkts-1 {
		return
	}
	rx = rx[:min(len(rx), int(w.npkts-1-idx))]
	c, off := &sq.rx, idx*uint32(mtu)
	if c.seek(sq, sq.q.head, mem.LocalWrite, off) != mem.FaultNone || c.cur.Left() < uint64(len(rx)*mtu) {
		return
	}
	sq.cameInRun()
	sq.learn(p)
	from, e := p.HeaderLen, sq.qp.e
	for i := range rx {
		if rx[i].ICRC != ICRCRight && !e.right(rx, i) {
			break
		}
		c.cur.CopyIn(rx[i].Data[from : from+mtu])
		e.run.done++
	}
	first := sq.una
	sq.una = first.Add(e.run.done)
	sq.progress(now, first, true)
}

// completeRun handles ONLY responses, each of which is one READ's or the last that it misses.
func (sq *requester) completeRun(now int64, p *ib.Packet, rx []RxPacket) {
	q, run, first := &sq.q, &sq.qp.e.run, sq.una
	for i := range rx {
		if i > 0 {
			if rx[i].ICRC != ICRCRight && !sq.qp.e.right(rx, i) {
				break
			}
			p.DecodeNext(rx[i].Data)
		}
		if q.head == q.tail || sq.qp.state == StateErr {
			break
		}
		w := q.at(q.head)
		idx := uint32(span(w.psn, sq.una))
		off := idx * uint32(sq.qp.mtu)
		if w.op != WRRead || w.state != wqeBegun || idx >= w.npkts || int(p.Pad) != ib.PadFor(len(p.Payload)) ||
			p.AETH.Syndrome.Kind() != ib.SyndromeACK {
			break
		}
		want := sq.qp.mtu
		if idx == w.npkts-1 {
			want = int(w.length - off)
		}
		if want == 0 || len(p.Payload) != want || !sq.msnFits(w, p.PSN, p.AETH) {
			break
		}
		if i == 0 {
			sq.cameInRun()
		}
		sq.learn(p)
		sq.newCredits(p)
		there := sq.deliver(now, off, p.Payload)
		run.done++
		if !there {
			break
		}
		sq.ackHead(now, w)
	}
	if run.done > 0 {
		sq.progress(now, first, true)
	}
}

// cameInRun notes whether a response to a READ came in a run.
func (sq *requester) cameInRun() {
	sq.inRuns = sq.qp.e.inRun
	sq.runs = sq.runs || sq.inRuns
}
