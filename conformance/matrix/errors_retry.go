package matrix

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/conformance/peer"
)

// Losses and lacking receive requests, up to the limits of retries and beyond.

// tense makes the retries run out soon; spare leaves some more than there are losses, so
// that stalls of an emulated guest are not taken for the peer's mistake; patient is for what
// must be repaired before any timer runs out.
func tense(p *params)   { p.timeout, p.retry = tenseTimeout, shortRetry }
func spare(p *params)   { p.timeout, p.retry = calmTimeout, shortRetry+3 }
func patient(p *params) { p.timeout = patientTimeout }

// rnrNAKs counts the RNR NAKs that came back.
func (x *trial) rnrNAKs() *wire.Rule {
	m := wire.Match{From: x.rsp.p.PortName(), Dst: x.req.p.Addr(x.family), QPN: x.rq.QPN(), AnyPSN: true, Opcodes: []uint8{wire.OpAcknowledge},
		Func: func(p *wire.Packet) bool { s, ok := p.Syndrome(); return ok && s&synKind == 0x20 }}
	return x.rule(&wire.Rule{Match: m, Kind: wire.Observe, Times: -1})
}

func rnrExceeded(x *trial) (string, error) {
	naks := x.rnrNAKs()
	if err := x.post(peer.OpSend, 1, 64); err != nil {
		return "", err
	}
	wc, err := x.fails(1, peer.RNRRetryExcErr)
	if err != nil {
		return "", err
	}
	if naks.Hits() != shortRetry+1 {
		return "", fmt.Errorf("%d RNR NAKs, want 1 and %d for the retries", naks.Hits(), shortRetry)
	}
	return fmt.Sprintf("%v after %d RNR NAKs", wc.Status, naks.Hits()), nil
}

func rnrNotExceeded(x *trial) (string, error) {
	naks := x.rnrNAKs()
	seed := x.nextSeed()
	if err := place(x.req.arena, x.rsp.arena, dataOff, faultSize, seed); err != nil {
		return "", err
	}
	if err := x.post(peer.OpSend, 1, faultSize); err != nil {
		return "", err
	}
	if err := waitHits(naks, 3); err != nil {
		return "", err
	}
	if err := x.recv(2, faultSize); err != nil {
		return "", err
	}
	if _, err := await(x.rq.PollSend, 1, "requester"); err != nil {
		return "", err
	}
	if _, err := await(x.sq.PollRecv, 2, "responder"); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d RNR NAKs", naks.Hits()), verify(x.rsp.arena, dataOff, faultSize, seed)
}

// exceeded loses the same packet for ever.
func exceeded(op peer.Opcode, at position) func(x *trial) (string, error) {
	return func(x *trial) (string, error) {
		m := x.target(at, faultSize)
		m.AnyPSN = at == ack // whatever a duplicate is answered with
		lost := x.rule(&wire.Rule{Match: m, Kind: wire.Drop, Times: -1})
		if err := x.recv(2, faultSize); err != nil {
			return "", err
		}
		start := time.Now()
		if err := x.post(op, 1, faultSize); err != nil {
			return "", err
		}
		wc, err := x.fails(1, peer.RetryExcErr)
		if err != nil {
			return "", err
		}
		took := time.Since(start)
		if lost.Hits() == 0 {
			return "", errors.New("nothing was lost")
		}
		// Where responses are lost the requests are counted: a responder in a guest that
		// stalls may answer late, or two at once.
		sent := lost.Hits()
		if at == ack || op == peer.OpRead {
			sent = x.transmissions(op)
		}
		if sent < shortRetry+1 {
			return "", fmt.Errorf("the request was sent %d times, want 1 and %d retries", sent, shortRetry)
		}
		if isGoroce(x.req.p) {
			if err := patientEnough(x.tr.Events(), x.rsp.p.Addr(x.family), took, at == reqLast || at == ack); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%v after %d transmissions, %d ms", wc.Status, sent, took.Milliseconds()), nil
	}
}

// tenseTime is the ACK timeout of tenseTimeout.
const tenseTime = 4096 * time.Nanosecond << tenseTimeout

// lossProbes is how often a requester of this module sends something again on suspicion,
// before its ACK timeout: that takes no retry (docs/loss.md).
const lossProbes = 2

// patientEnough checks that a requester whose retries ran out, which took some time, has not
// gone on for longer than it should, nor, if it was its timer that ran out, given up too soon.
// What a slow responder does to the numbers is allowed for: progress gives all retries back.
func patientEnough(events []wire.Event, responder netip.Addr, took time.Duration, byTimer bool) error {
	if least := (shortRetry + 1) * tenseTime; byTimer && took < least {
		return fmt.Errorf("gave up after %v, and %d timeouts take %v", took, shortRetry+1, least)
	}
	sent := map[uint32]int{}
	begun, newest := false, uint32(0)
	for _, e := range events {
		p := e.Pkt
		if p.Dst == responder {
			sent[p.PSN]++
			if sent[p.PSN] > 1+shortRetry+lossProbes {
				return fmt.Errorf("PSN %#x was sent %d times without progress, want 1, %d retries and at most %d probes", p.PSN, sent[p.PSN], shortRetry, lossProbes)
			}
			continue
		}
		if e.Delivered() && (!begun || psnDiff(p.PSN, newest) > 0) {
			begun, newest = true, p.PSN
			clear(sent)
		}
	}
	return nil
}

// notExceeded loses it as often as there are retries.
func notExceeded(op peer.Opcode, at position, times int) func(x *trial) (string, error) {
	return func(x *trial) (string, error) {
		lost := x.rule(&wire.Rule{Match: x.target(at, faultSize), Kind: wire.Drop, Times: times})
		if err := x.transfer(op, faultSize); err != nil {
			return "", err
		}
		if lost.Hits() != times {
			return "", fmt.Errorf("the packet was lost %d times, want %d", lost.Hits(), times)
		}
		return fmt.Sprintf("lost %d times", times), x.transfer(op, faultSize)
	}
}

// partialWrite loses a packet in the middle: what lies before it must not be sent again.
func partialWrite(x *trial) (string, error) {
	target := x.target(reqMiddle, faultSize)
	lost := x.rule(&wire.Rule{Match: target, Kind: wire.Drop})
	if err := x.transfer(peer.OpWrite, faultSize); err != nil {
		return "", err
	}
	if lost.Hits() != 1 {
		return "", errors.New("nothing was lost")
	}
	return "resent from the lost packet on", onlyFrom(target.PSN, x.requests())
}

// onlyFrom checks that the packet which was lost was sent again, and none before it, but for
// probes.
func onlyFrom(lost uint32, requests []*wire.Packet) error {
	count := map[uint32]int{}
	early := 0
	for _, p := range requests {
		count[p.PSN]++
		if psnDiff(p.PSN, lost) < 0 && count[p.PSN] > 1 {
			early++
		}
	}
	if early > lossProbes {
		return fmt.Errorf("%d packets before the lost PSN %#x were sent again, want none, or %d probes", early, lost, lossProbes)
	}
	if n := count[lost]; n < 2 || n > 2+lossProbes {
		return fmt.Errorf("the lost PSN %#x was sent %d times, want 2, or %d probes more", lost, n, lossProbes)
	}
	return nil
}

// partialRead loses a response: the request is issued again for the missing range.
func partialRead(x *trial) (string, error) {
	target := x.target(rspMiddle, faultSize)
	lost := x.rule(&wire.Rule{Match: target, Kind: wire.Drop})
	if err := x.transfer(peer.OpRead, faultSize); err != nil {
		return "", err
	}
	if lost.Hits() != 1 {
		return "", errors.New("nothing was lost")
	}
	req := x.requests()
	second, err := askedAgain(target.PSN, req)
	if err != nil {
		return "", err
	}
	b := second.Body()
	n := int(b[12])<<24 | int(b[13])<<16 | int(b[14])<<8 | int(b[15])
	done := psnDiff(target.PSN, req[0].PSN) * faultMTU
	if n != faultSize-done {
		return "", fmt.Errorf("the second request is for %d bytes, want the missing %d", n, faultSize-done)
	}
	return fmt.Sprintf("asked again for the last %d bytes", n), nil
}

// askedAgain returns the request for what was lost, which is the second one, but for probes: where
// the responses come late, the requester asks for those before, too.
func askedAgain(lost uint32, requests []*wire.Packet) (*wire.Packet, error) {
	for i, p := range requests[min(1, len(requests)):] {
		switch {
		case p.Opcode == wire.OpReadRequest && p.PSN == lost:
			return p, nil
		case p.Opcode != wire.OpReadRequest || psnDiff(p.PSN, lost) > 0 || i >= lossProbes:
			return nil, fmt.Errorf("request %d is %v, want a READ request with PSN %#x", i+2, p, lost)
		}
	}
	return nil, fmt.Errorf("%d READ requests, and none for PSN %#x", len(requests), lost)
}
