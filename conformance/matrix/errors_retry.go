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

// Losses and lacking receive requests, up to the limits of retries and beyond.

// tense makes the retries run out soon; spare leaves some more than there are losses, so
// that stalls of an emulated guest are not taken for the peer's mistake; patient is for what
// must be repaired before any timer runs out.
func tense(p *params)   { p.timeout, p.retry = tenseTimeout, shortRetry }
func spare(p *params)   { p.timeout, p.retry = calmTimeout, shortRetry+3 }
func patient(p *params) { p.timeout = patientTimeout }

// rnrNAKs counts the RNR NAKs that came back.
func (x *trial) rnrNAKs() *ether.Rule {
	m := ether.Match{From: x.rsp.p.PortName(), Dst: x.req.p.Addr(x.family), QPN: x.rq.QPN(), AnyPSN: true,
		Opcodes: []uint8{ether.OpAcknowledge},
		Func: func(p *ether.Packet) bool {
			s, ok := p.Syndrome()
			return ok && ib.Syndrome(s).Kind() == ib.SyndromeRNR
		}}
	return x.rule(&ether.Rule{Match: m, Kind: ether.Observe, Times: -1})
}

func rnrExceeded(x *trial) string {
	naks := x.rnrNAKs()
	status := x.refused(x.wr(peer.OpSend, 1, 64), peer.RNRRetryExcErr)
	peer.Must(rightRNRNAKs(naks.Hits(), x.probes()))
	return fmt.Sprintf("%v after %d RNR NAKs", status, naks.Hits())
}

// rightRNRNAKs checks how many RNR NAKs a SEND has drawn until its requester gave up. A probe that
// went before the first NAK came draws one more, which the requester takes for what it is.
func rightRNRNAKs(naks, probes int) error {
	if naks < shortRetry+1 || naks > shortRetry+1+probes {
		return fmt.Errorf("%d RNR NAKs, want 1 and %d for the retries, and at most %d for probes", naks,
			shortRetry, probes)
	}
	return nil
}

// probes is how many packets the requester may send again before an answer to anything new, beside
// what its retries allow.
func (x *trial) probes() int {
	if isGoroce(x.req.p) {
		return lossProbes
	}
	return 0
}

func rnrNotExceeded(x *trial) string {
	naks := x.rnrNAKs()
	seed := x.nextSeed()
	peer.Must(place(x.req.arena, x.rsp.arena, dataOff, faultSize, seed))
	x.post(peer.OpSend, 1, faultSize)
	x.hits(naks, 3)
	x.recv(2, faultSize)
	x.sent(1)
	x.received(2)
	peer.Must(verify(x.rsp.arena, dataOff, faultSize, seed))
	return fmt.Sprintf("%d RNR NAKs", naks.Hits())
}

// exceeded loses the same packet for ever.
func exceeded(op peer.Opcode, at position) func(x *trial) string {
	return func(x *trial) string {
		counted := at
		if at == ack {
			// Nothing is acknowledged, so each retry begins with the first packet; a window that
			// has become small may leave out the last.
			counted = reqFirst
		}
		target := x.loss(counted, faultSize)
		m := x.target(at, faultSize)
		m.AnyPSN = at == ack // whatever a duplicate is answered with
		lost := x.rule(&ether.Rule{Match: m, Kind: ether.Drop, Times: -1})
		x.recv(2, faultSize)
		start := time.Now()
		x.post(op, 1, faultSize)
		wc := x.fails(1, peer.RetryExcErr)
		took := time.Since(start)
		if lost.Hits() == 0 {
			peer.Must(errNothingLost)
		}
		// The requests are counted, since a responder in a guest that stalls may answer late, or
		// two at once.
		sent := x.transmissions(op, target)
		if sent < shortRetry+1 {
			peer.Must(fmt.Errorf("the request was sent %d times, want 1 and %d retries", sent, shortRetry))
		}
		if isGoroce(x.req.p) {
			x.patientEnough(took, at == reqLast || at == ack)
		}
		return fmt.Sprintf("%v after %d transmissions, %d ms", wc.Status, sent, took.Milliseconds())
	}
}

var errNothingLost = errors.New("nothing was lost")

// transmissions is how often the request was sent that a loss is of, or of which it is a response.
func (x *trial) transmissions(op peer.Opcode, l analyse.Loss) int {
	r := x.repair(l)
	if op == peer.OpRead {
		return 1 + len(r.Asked) + r.MoreAsked
	}
	return r.Times
}

// tenseTime is the ACK timeout of tenseTimeout.
const tenseTime = 4096 * time.Nanosecond << tenseTimeout

// lossProbes is how often a requester of this module sends something again on suspicion,
// before its ACK timeout: that takes no retry (docs/loss.md).
const lossProbes = 2

// lossyReads is how many READ requests it sends so on a queue pair that has lost packets lately,
// to a peer of this module: four times one, and up to seven for the last packets of the answer.
const lossyReads = 4 * 8

// patientEnough checks that a requester whose retries ran out, which took some time, has not
// gone on for longer than it should, nor, if it was its timer that ran out, given up too soon.
// What a slow responder does to the numbers is allowed for: progress gives all retries back.
func (x *trial) patientEnough(took time.Duration, byTimer bool) {
	peer.Must(tooSoon(took, byTimer))
	r := peer.Got(x.analysed(x.v, atRequester, analyse.Conduct{}, 1+shortRetry+lossProbes))
	r.Breaches = slices.DeleteFunc(r.Breaches, func(b analyse.Breach) bool { return b.Rule != analyse.RuleTries })
	peer.Must(breaches(x.req.p.Name(), r))
}

// tooSoon refuses a requester that gave up before its timer can have run out so often.
func tooSoon(took time.Duration, byTimer bool) error {
	if least := (shortRetry + 1) * tenseTime; byTimer && took < least {
		return fmt.Errorf("gave up after %v, and %d timeouts take %v", took, shortRetry+1, least)
	}
	return nil
}

// notExceeded loses it as often as there are retries.
func notExceeded(op peer.Opcode, at position, times int) func(x *trial) string {
	return func(x *trial) string {
		lost := x.rule(&ether.Rule{Match: x.target(at, faultSize), Kind: ether.Drop, Times: times})
		x.transfer(op, faultSize)
		x.acted(lost, times, "the packet was lost")
		x.transfer(op, faultSize)
		return fmt.Sprintf("lost %d times", times)
	}
}

// loseOne transfers a message of which one packet is lost, and tells how that was mended.
func (x *trial) loseOne(op peer.Opcode, at position) *analyse.Repair {
	lost, loss := x.rule(&ether.Rule{Match: x.target(at, faultSize), Kind: ether.Drop}), x.loss(at, faultSize)
	x.transfer(op, faultSize)
	if lost.Hits() != 1 {
		peer.Must(errNothingLost)
	}
	return x.repair(loss)
}

// partialWrite loses a packet in the middle: what lies before it must not be sent again.
func partialWrite(x *trial) string {
	peer.Must(onlyFrom(x.loseOne(peer.OpWrite, reqMiddle)))
	return "resent from the lost packet on"
}

// onlyFrom checks that the packet which was lost was sent again, and none before it, but for
// probes.
func onlyFrom(r *analyse.Repair) error {
	if r.Probes > lossProbes {
		return fmt.Errorf("%d packets before the lost PSN %#x were sent again, want none, or %d probes",
			r.Probes, uint32(r.Loss.PSN), lossProbes)
	}
	if n := r.Times; n < 2 || n > 2+lossProbes {
		return fmt.Errorf("the lost PSN %#x was sent %d times, want 2, or %d probes more",
			uint32(r.Loss.PSN), n, lossProbes)
	}
	return nil
}

// readTries is how many READs lose a response until the requester asks for it: before that it may
// have asked again for all of them, since they were slow to come, and then has what it lacked.
const readTries = 3

// partialRead loses a response: the request is issued again for the missing range.
func partialRead(x *trial) string {
	late, probes := 0, lossProbes
	for range readTries {
		r := x.loseOne(peer.OpRead, rspMiddle)
		switch peer.Got(askedAgain(r, probes)) {
		case forTheRest:
			return fmt.Sprintf("asked again for the last %d bytes", r.Missing)
		case forAll:
			late++
		}
		if isGoroce(x.req.p) {
			probes = lossyReads
		}
	}
	if late > 0 {
		peer.Must(fmt.Errorf("a response was missed, and the requester asked for all of them: %d of %d times",
			late, readTries))
	}
	return "probes had asked again for all responses before the missing one was missed"
}

// asking is how a requester came by a response that was lost.
type asking int

const (
	forTheRest asking = iota // it asked for that and what is behind it
	before                   // it had asked again for all, before it could know
	forAll                   // it asked for all
)

// askedAgain tells how a requester has asked for a lost response. As long as responses do not come
// it may ask for all again, as probes do, or for the last that it asked for.
func askedAgain(r *analyse.Repair, probes int) (asking, error) {
	lost := uint32(r.Loss.PSN)
	how := before
	for _, a := range r.Asked {
		if r.ShownNs != 0 && a.AtNs >= r.ShownNs {
			how = forAll
		}
	}
	if r.Skipped != nil {
		return 0, fmt.Errorf("a READ request is for PSN %#x, and %#x is missing", uint32(r.Skipped.PSN), lost)
	}
	if r.Probes > probes {
		return 0, fmt.Errorf("%d READ requests again for other than PSN %#x, want %d probes at most", r.Probes,
			lost, probes)
	}
	a, ok := r.For()
	switch {
	case ok && a.Bytes != r.Missing && int(a.Bytes) != r.Loss.MTU: // the lost one alone
		return 0,
			fmt.Errorf("the READ request for what was lost is for %d bytes, want the missing %d", a.Bytes, r.Missing)
	case ok:
		return forTheRest, nil
	case len(r.Asked) == 0 || r.Times == 0:
		return 0, fmt.Errorf("%d READ requests again, and none for PSN %#x", len(r.Asked), lost)
	}
	return how, nil
}
