package drill

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// strayLimit bounds what is passed over while a packet is waited for.
const strayLimit = 1 << 16

// next returns the next datagram for this run, or false.
func (p *player) next(within time.Duration) (Datagram, bool) {
	if len(p.queue) > 0 {
		d := p.queue[0]
		p.queue = p.queue[1:]
		return d, true
	}
	end := p.b.Now() + within
	for range strayLimit {
		d, ok, err := p.b.Recv(max(end-p.b.Now(), 0))
		peer.Must(err)
		if !ok {
			return d, false
		}
		if p.mine(d) {
			p.received(d)
			return d, true
		}
	}
	peer.Must(fmt.Errorf("more than %d packets that are for others", strayLimit))
	return Datagram{}, false
}

// mine reports whether a datagram is for a queue pair of this run, or about a connection of it:
// what an earlier run has left behind is not.
func (p *player) mine(d Datagram) bool {
	if len(d.Payload) < ib.BTHBytes {
		return true // which is a difference whatever it was
	}
	qpn := ib.QPN(d.Payload[5])<<16 | ib.QPN(d.Payload[6])<<8 | ib.QPN(d.Payload[7])
	if qpn == cmQPN {
		return p.mineCM(d)
	}
	first := ib.QPN(p.vars["myqpn"])
	return qpn >= first && qpn < first+qpnsPerRun
}

// expect waits for a packet, or for none.
func (p *player) expect(s *step) {
	if s.form == formNothing {
		p.expectNothing(s)
		return
	}
	if s.many && s.arg("within") == nil {
		p.passed = append(p.passed, s) // until the next packet that has to come
		return
	}
	defer func() { p.passed = nil }()
	for {
		within := p.within(s)
		d, ok := p.next(within)
		if !ok {
			if !s.maybe && !s.many {
				differ(s, nothingCame+"%v", within)
			}
			return
		}
		switch why := p.compare(s, d); {
		case why == "":
			p.matched(s)
			p.mark, p.sends = d.At-d.Late, false // so that "after" is not too strict
			if !s.many {
				return
			}
		case p.passOver(d):
		case s.maybe || s.many:
			p.queue = append([]Datagram{d}, p.queue...)
			return
		default:
			differ(s, "%s", why)
		}
	}
}

// passOver reports whether a datagram is one of those that may come any number of times before the
// next one that has to come.
func (p *player) passOver(d Datagram) bool {
	for _, s := range p.passed {
		why := ""
		if err := peer.Steps(func() { why = p.compare(s, d) }); why == "" && err == nil {
			p.matched(s)
			return true
		}
	}
	return false
}

func (p *player) expectNothing(s *step) {
	defer func() { p.passed = nil }()
	for {
		d, ok := p.next(p.b.Silence(s.arg("for").time))
		if !ok {
			p.note(s, "%s", s.text)
			return
		}
		if !p.passOver(d) {
			differ(s, "a packet came, and none should: %s", p.describe(d))
		}
	}
}

// compare says how a datagram differs from what a step expects; empty if it does not.
func (p *player) compare(s *step, d Datagram) string {
	if s.form == formCM {
		return p.compareCM(s, d)
	}
	q := p.end(s)
	var pk ib.Packet
	if e := pk.Decode(d.Payload); e != ib.DecodeOK {
		return fmt.Sprintf("not a packet: %v", e)
	}
	switch {
	case d.BadICRC:
		return "the ICRC is wrong"
	case pk.Opcode != s.opcode:
		return "got " + p.describe(d)
	case pk.Opcode == ib.RCAcknowledge && !s.admits(pk.AETH.Syndrome):
		return "got " + p.describe(d)
	case pk.DestQP != q.qpn && s.arg("qpn") == nil:
		return fmt.Sprintf("it is for queue pair %v, and not for %v", pk.DestQP, q.qpn)
	case int(pk.Pad) != ib.PadFor(len(pk.Payload)) && s.arg("pad") == nil:
		return fmt.Sprintf("a pad of %d for %d bytes", pk.Pad, len(pk.Payload))
	case s.has("ack") && !pk.AckReq:
		return "it does not ask for an ACK"
	case s.has("noack") && pk.AckReq:
		return "it asks for an ACK"
	}
	if a := s.arg("after"); a != nil && d.At-p.mark < a.time {
		return fmt.Sprintf("it came after %v, and not after %v", d.At-p.mark, a.time)
	}
	for i := range s.args {
		if why := p.compareArg(s, &s.args[i], q, &pk, d); why != "" {
			return why
		}
	}
	return ""
}

// admits reports whether an acknowledgement is of the kind that the step names.
func (s *step) admits(x ib.Syndrome) bool {
	switch s.op {
	case "ACK":
		return x>>5 == 0
	case "RNR":
		return x>>5 == 1
	}
	return int(x) == s.syndrome
}

func (p *player) compareArg(s *step, a *arg, q *end, pk *ib.Packet, d Datagram) string {
	var got uint64
	key := false
	switch a.key {
	case "data":
		var want []byte
		if err := peer.Steps(func() { want = p.bytes(a.data, len(pk.Payload)) }); err != nil {
			return err.Error()
		}
		if !bytes.Equal(want, pk.Payload) {
			return fmt.Sprintf("the payload is %x..., and not %x...", short(pk.Payload), short(want))
		}
		return ""
	case "len":
		got = uint64(len(pk.Payload))
	case "tos":
		got = uint64(d.TOS)
	case "sport":
		got = uint64(d.SrcPort)
	case "label":
		got = uint64(d.FlowLabel)
	default:
		f := fieldOf(a.key, s.opcode)
		if f == nil {
			return ""
		}
		got, key = f.get(pk), f.key
		if a.key == "psn" {
			got = uint64(int64(ib.PSN(got).Diff(p.base(q, s.opcode, false))))
		}
	}
	return p.compareNum(a, got, key)
}

// compareNum compares a number, or captures it.
func (p *player) compareNum(a *arg, got uint64, key bool) string {
	if a.capture != "" {
		p.vars[a.capture] = got
		return ""
	}
	want := p.eval(a.num, key)
	if got == want || slices.ContainsFunc(a.alts, func(e expr) bool { return p.eval(e, key) == got }) {
		return ""
	}
	if a.key == "psn" || a.key == "len" || a.key == "dlen" || a.key == "msn" {
		return fmt.Sprintf("%s is %d, and not %d", a.key, int64(got), int64(want))
	}
	return fmt.Sprintf("%s is %#x, and not %#x", a.key, got, want)
}
