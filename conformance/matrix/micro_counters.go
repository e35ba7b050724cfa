package matrix

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse"
)

// ecnCE is "congestion experienced", of the two bits of ECN.
const ecnCE = 3

// The counters of the two ends, held against the trace.

// lossCounters loses a packet, and holds the counters of the two ends against the trace.
func lossCounters(x *trial, f *findings) {
	before := map[*side]map[string]uint64{}
	for _, s := range []*side{x.req, x.rsp} {
		before[s] = peer.Got(s.s.Counters())
	}
	x.rule(&ether.Rule{Match: x.target(reqMiddle, faultSize), Kind: ether.Drop})
	x.transfer(peer.OpSend, faultSize)
	naks := peer.Got(x.analysed(x.v, atRequester, analyse.Conduct{})).Connections[0].Ways[0].Sequence
	gaps := min(naks, 1)
	f.numbers["naks_seen"] = float64(naks)
	// The names of rxe and this module, and of ConnectX. A responder may say again that a packet is
	// missing, and a requester that is on its way to send it need not count that: one for each gap
	// it must.
	for _, c := range []struct {
		s     *side
		what  string
		names []string
	}{
		{x.req, "naks_counted_by_requester", []string{"rcvd_seq_err", "packet_seq_err"}},
		{x.rsp, "gaps_counted_by_responder", []string{"out_of_seq_request", "out_of_sequence"}},
	} {
		name, n, err := counted(c.s.s.Counters, before[c.s], c.names, gaps)
		peer.Must(err)
		if name == "" {
			continue // it has no such counter
		}
		f.numbers[c.what] = float64(n)
		if n < gaps {
			peer.Must(fmt.Errorf("%s counts %d in %s, and the wire has seen %d", c.s.p.Name(), n, name, gaps))
		}
	}
	if naks == 0 {
		peer.Must(fmt.Errorf("%w: the gap was repaired without a NAK", errNotMeasured))
	}
}

// A kernel shows a device's counters as it read them last, for a while: 10 ms by default
// (hw_counters/lifespan).
const (
	countersLag  = 5 * time.Second
	countersStep = 5 * time.Millisecond
	// countersCalm is for how long counters must be the same to be believed.
	countersCalm = 50 * time.Millisecond
)

// counted reads counters until one of some names, the first that is there, is least more than
// before, or has had the time to be. The name is empty if none is there.
func counted(read func() (map[string]uint64, error), before map[string]uint64, names []string,
	least int) (name string, n int, err error) {
	for end := time.Now().Add(countersLag); ; time.Sleep(countersStep) {
		now, err := read()
		if err != nil {
			return "", 0, err
		}
		i := slices.IndexFunc(names, func(name string) bool { _, ok := now[name]; return ok })
		if i < 0 {
			return "", 0, nil
		}
		if n = int(now[names[i]] - before[names[i]]); n >= least || time.Now().After(end) {
			return names[i], n, nil
		}
	}
}

// counts are the counters of both ends at one time.
type counts struct{ req, rsp map[string]uint64 }

// counts reads the counters of both ends until they stay as they are.
func (x *trial) counts() counts {
	return counts{req: peer.Got(calm(x.req.s.Counters)), rsp: peer.Got(calm(x.rsp.s.Counters))}
}

// calm reads counters until they stay as they are for a while, or have had the time to.
func calm(read func() (map[string]uint64, error)) (map[string]uint64, error) {
	last, err := read()
	for end := time.Now().Add(countersLag); err == nil && time.Now().Before(end); {
		time.Sleep(countersCalm)
		var now map[string]uint64
		if now, err = read(); err == nil && maps.Equal(now, last) {
			return now, nil
		}
		last = now
	}
	return last, err
}

// counter is what is both on the wire and in a counter.
type counter struct {
	what      string
	responder bool     // whose counter it is
	names     []string // of rxe and this module, and of ConnectX
	seen      func(*seenFaults) int
}

var counters = []counter{
	{"seq_naks_sent", true, []string{"sent_seq_naks"}, func(s *seenFaults) int { return s.seqNAKs }},
	{"seq_naks_received", false, []string{"rcvd_seq_err", "packet_seq_err"},
		func(s *seenFaults) int { return s.seqNAKs }},
	{"out_of_sequence", true, []string{"out_of_seq_request", "out_of_sequence"},
		func(s *seenFaults) int { return s.ahead }},
	{"duplicates", true, []string{"duplicate_request"}, func(s *seenFaults) int { return s.duplicates }},
	{"implied_naks", false, []string{"implied_naks", "implied_nak_seq_err"},
		func(s *seenFaults) int { return s.impliedNAKs }},
	{"icrc_errors", true, []string{"icrc_errors", "rx_icrc_encapsulated"},
		func(s *seenFaults) int { return s.damaged }},
	{"rnr_naks_sent", true, []string{"send_rnr_err"}, func(s *seenFaults) int { return s.rnrNAKs }},
	{"rnr_naks_received", false, []string{"rcvd_rnr_err", "rnr_nak_retry_err"},
		func(s *seenFaults) int { return s.rnrNAKs }},
	{"ce_packets", true, []string{"ce_marked", "np_ecn_marked_roce_packets"},
		func(s *seenFaults) int { return s.marked }},
	{"cnps_sent", true, []string{"cnps_sent", "np_cnp_sent"}, func(s *seenFaults) int { return s.cnps }},
	{"cnps_handled", false, []string{"cnps_handled", "rp_cnp_handled"}, func(s *seenFaults) int { return s.cnps }},
}

// faultCounters has a fault of each kind, and holds the counters of the two ends against the trace.
// "X_seen" is what the wire has seen, "X_counted" what the counter says, which is missing if there
// is no such counter.
func faultCounters(x *trial, f *findings) {
	before := x.counts()
	for _, ft := range []struct {
		op   peer.Opcode
		at   position
		rule *ether.Rule
	}{
		{peer.OpSend, reqMiddle, &ether.Rule{Kind: ether.Drop}},
		{peer.OpWrite, reqMiddle, &ether.Rule{Kind: ether.Duplicate}},
		{peer.OpRead, rspMiddle, &ether.Rule{Kind: ether.Drop}},
		{peer.OpWrite, reqMiddle, &ether.Rule{Kind: ether.Corrupt, Offset: -5}},
		{peer.OpWrite, reqMiddle, &ether.Rule{Kind: ether.MarkCE, Times: -1}},
	} {
		ft.rule.Match = x.target(ft.at, faultSize)
		ft.rule.Match.AnyPSN = ft.rule.Times < 0
		r := x.rule(ft.rule)
		x.transfer(ft.op, faultSize)
		x.env.Wire.Remove(r)
	}
	x.oneRNR()
	now := x.counts()
	s := new(seenFaults)
	s.add(x, x.tr.Events())
	for _, c := range counters {
		f.numbers[c.what+"_seen"] = float64(c.seen(s))
		from, to := before.req, now.req
		if c.responder {
			from, to = before.rsp, now.rsp
		}
		if i := slices.IndexFunc(c.names, func(name string) bool { _, ok := to[name]; return ok }); i >= 0 {
			f.numbers[c.what+"_counted"] = float64(to[c.names[i]] - from[c.names[i]])
		}
	}
}

// oneRNR has a SEND wait for its receive.
func (x *trial) oneRNR() {
	naks := x.rnrNAKs()
	x.post(peer.OpSend, 1, microMessage)
	x.advance(microMessage)
	x.hits(naks, 1)
	x.recv(2, microMessage)
	x.sent(1)
	x.received(2)
}

// seenFaults is what the wire has seen of them: what reached the side that is to count it.
type seenFaults struct {
	seqNAKs, rnrNAKs, ahead, duplicates, impliedNAKs, damaged, marked, cnps int
}

func (s *seenFaults) add(x *trial, events []ether.Event) {
	expected := uint32(firstPSN) // by the responder
	lostResponse := uint32(0)
	response := false // one was lost
	for _, e := range events {
		p := e.Pkt
		if !x.toResponder(p) {
			s.fromResponder(e, &expected)
			if e.Fate == "drop" {
				lostResponse, response = p.PSN, true
			}
			continue
		}
		if response && p.Opcode == ether.OpReadRequest && p.PSN == lostResponse {
			s.impliedNAKs++
			response = false
		}
		copies := 1
		if e.Fate == "duplicate" {
			copies = 2
		}
		if !e.Delivered() {
			continue
		}
		if p.ECN == ecnCE {
			s.marked += copies
		}
		if e.Fate == ether.Corrupt.String() {
			s.damaged++
			continue
		}
		for range copies {
			switch d := ahead(p.PSN, expected); {
			case d > 0:
				s.ahead++
			case d < 0:
				s.duplicates++
			default:
				expected = (expected + uint32(x.psns(p))) & psnMask
			}
		}
	}
}

func (s *seenFaults) fromResponder(e ether.Event, expected *uint32) {
	p := e.Pkt
	if !e.Delivered() {
		return
	}
	syn, ok := syndromeOf(p)
	switch {
	case p.Opcode == ether.OpCNP:
		s.cnps++
	case ok && syn == ib.NAKSequence:
		s.seqNAKs++
	case ok && syn.Kind() == ib.SyndromeRNR:
		s.rnrNAKs++
		*expected = p.PSN // it was taken back
	}
}

// psns is how many PSNs a request packet takes.
func (x *trial) psns(p *ether.Packet) int {
	if p.Opcode != ether.OpReadRequest {
		return 1
	}
	const lengthAt = 12 // in the RETH
	body := p.Body()
	if len(body) < lengthAt+4 {
		return 1
	}
	return x.packets(int(binary.BigEndian.Uint32(body[lengthAt:])))
}
