package matrix

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
)

// How long the two sides take to react, between packets on the wire.

// ackLatency measures how long the responder takes for the ACK of a short WRITE. The way to it and
// back is in all times, and this is the shortest that it can be.
func ackLatency(x *trial, f *findings) {
	for range x.env.microTimes() {
		begin, psn := len(x.tr.Events()), x.psn
		x.post(peer.OpWrite, 1, microMessage)
		x.advance(microMessage)
		x.sent(1)
		if d, ok := x.answered(x.tr.Events()[begin:], psn, psn); ok {
			f.time("ack_made", d)
		}
	}
	if len(f.samples) == 0 {
		peer.Must(errors.New("no WRITE was seen with its ACK"))
	}
}

// microMessage is the length of a short message, in bytes.
const microMessage = 64

// isACK reports whether a packet acknowledges what has its PSN.
func isACK(p *ether.Packet) bool {
	s, ok := syndromeOf(p)
	return ok && s.Kind() == ib.SyndromeACK
}

// answered is the time from the first transmission of the packet with PSN first to the ACK that
// covers PSN last.
func (x *trial) answered(events []ether.Event, first, last uint32) (d time.Duration, ok bool) {
	sent := time.Duration(-1)
	for _, e := range events {
		switch p := e.Pkt; {
		case x.toResponder(p) && p.PSN == first && sent < 0:
			sent = e.At
		case !x.toResponder(p) && isACK(p) && ahead(p.PSN, last) >= 0 && sent >= 0:
			return e.At - sent, true
		}
	}
	return 0, false
}

// lose does an operation some times and loses a packet at a position each time. It returns how the
// losses were mended.
func (x *trial) lose(at position, op func()) []*analyse.Repair {
	var losses []analyse.Loss
	for range x.env.microTimes() {
		losses = append(losses, x.loss(at, faultSize))
		x.rule(&ether.Rule{Match: x.target(at, faultSize), Kind: ether.Drop})
		op()
	}
	r := peer.Got(x.analysed(x.v, atRequester, analyse.Conduct{Losses: losses}))
	peer.Must(x.checkConduct(x.v)) // a NAK is for what is missing, among others
	return r.Repairs
}

// nakLatency loses a packet in the middle, and measures how long the responder takes for the NAK
// from the packet behind the gap on, and the requester from the NAK on until it sends the missing
// packet.
func nakLatency(op peer.Opcode) func(x *trial, f *findings) {
	return func(x *trial, f *findings) { x.naks(f, reqMiddle, func() { x.transfer(op, faultSize) }) }
}

// nakLatencyRead does the same with the request of a READ that another one follows.
func nakLatencyRead(x *trial, f *findings) {
	x.naks(f, reqFirst, func() {
		for id := range uint64(2) {
			x.post(peer.OpRead, id, faultSize)
			x.advance(faultSize)
		}
		x.sent(0)
		x.sent(1)
	})
}

// naks measures the reactions to the loss of a packet of an operation.
func (x *trial) naks(f *findings, at position, op func()) {
	seen := 0
	for _, r := range x.lose(at, op) {
		switch {
		case r.NAKs == 0:
			// A requester that sends again on suspicion may have been faster.
			continue
		case r.NAKs > 1 && !isGoroce(x.rsp.p): // which repeats it after a while: see gap.mayNAK
			peer.Must(fmt.Errorf("%d NAKs for one gap", r.NAKs))
		}
		seen++
		f.time("nak_made", time.Duration(r.NAKNs-r.ShownNs))
		if r.ResentNs != 0 {
			f.time("nak_to_resend", time.Duration(r.ResentNs-r.NAKNs))
		}
	}
	if seen == 0 {
		peer.Must(errors.New("no gap was answered with a NAK"))
	}
}

// readRecovery loses a response in the middle, and measures how long the requester takes from the
// response behind the gap on until it asks again.
func readRecovery(x *trial, f *findings) {
	f.numbers["timeout_ms"] = timeoutMs(x.timeout)
	for _, r := range x.lose(rspMiddle, func() { x.transfer(peer.OpRead, faultSize) }) {
		i := slices.IndexFunc(r.Asked, func(a analyse.Ask) bool { return a.AtNs >= r.ShownNs })
		if i >= 0 && r.ShownNs != 0 {
			f.time("gap_to_request", time.Duration(r.Asked[i].AtNs-r.ShownNs))
		}
	}
	if len(f.samples) == 0 {
		// All data has come, so that probes must have asked for it before it was missed.
		peer.Must(fmt.Errorf("%w: no READ was asked for again after a gap", errNotMeasured))
	}
}

// timeoutMs is the time of an ACK timeout's code.
func timeoutMs(code int) float64 {
	return float64((4096 * time.Nanosecond << code).Microseconds()) / 1e3
}

// timeoutSeries loses the last packet for ever, and measures the times between its transmissions.
func timeoutSeries(x *trial, f *findings) {
	loss := x.loss(reqLast, faultSize)
	x.rule(&ether.Rule{Match: x.target(reqLast, faultSize), Kind: ether.Drop, Times: -1})
	x.recv(2, faultSize)
	x.post(peer.OpSend, 1, faultSize)
	x.fails(1, peer.RetryExcErr)
	r := x.repair(loss)
	f.sample("transmissions", "", float64(r.Times))
	f.numbers["timeout_ms"], f.numbers["retry_cnt"] = timeoutMs(x.timeout), float64(x.retry)
	for i := 1; i < len(r.SentNs); i++ {
		f.sample(fmt.Sprintf("interval%d", i), "ms", float64((r.SentNs[i]-r.SentNs[i-1])/1e3)/1e3)
	}
	if r.Times < x.retry+1 {
		peer.Must(fmt.Errorf("the packet was sent %d times, want 1 and %d retries", r.Times, x.retry))
	}
}
