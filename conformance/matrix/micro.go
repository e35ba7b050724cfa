package matrix

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab/wire"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/roce/analyse"
)

// How a peer reacts, measured on the wire (after Lumina, SIGCOMM 2023). What the specification says is judged; times are
// measured and not judged, because it says nothing of most of them, and because machines are busy.

// micro is one behaviour.
type micro struct {
	name      string
	authority string
	adjust    func(*params)
	run       func(x *trial, m measured) error
}

// measured are the numbers that a row has found, by names that end with the unit.
type measured map[string]float64

// note adds the median and the largest of some times.
func (m measured) note(what string, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	m[what+"_p50_us"] = float64(times[len(times)/2]) / 1e3
	m[what+"_max_us"] = float64(times[len(times)-1]) / 1e3
}

// String is all numbers in a line.
func (m measured) String() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %.6g", k, m[k]))
	}
	return strings.Join(out, ", ")
}

// microTimes is how often a reaction is measured.
const microTimes = 8

// microTimeout is the ACK timeout's code where it is to run out: 67 ms.
const microTimeout = 14

var micros = []micro{
	{"NAK latency SEND", "IBTA 9.7.5.2.2: one NAK, for the first missing PSN; times after Lumina", patient, nakLatency(peer.OpSend)},
	{"NAK latency WRITE", "IBTA 9.7.5.2.2: one NAK, for the first missing PSN; times after Lumina", patient, nakLatency(peer.OpWrite)},
	{"READ recovery", "IBTA 9.7.5.2.7: the request is issued again for what is missing; times after Lumina", patient, readRecovery},
	{"timeout series", "IBTA 9.7.6.1.3: 1 transmission and retry_cnt more; adaptive timers seen on ConnectX (perftest issue 251)",
		func(p *params) { p.timeout, p.retry = microTimeout, shortRetry }, timeoutSeries},
	{"CNP for CE", "IBTA annex A17.9.2: BECN, 16 reserved bytes of zero; the gap after Lumina", patient, cnpGap},
	{"ACK coalescing", "IBTA 9.7.5.1.2: the last packet is acknowledged; the number of ACKs is open", patient, ackCoalescing},
	{"counters after a loss", "Lumina: counters equal the trace", patient, lossCounters},
}

// microJobs makes the rows of the behaviours.
func (e *Env) microJobs(r role) (jobs []job) {
	for _, b := range micros {
		row := e.row("micro", b.name, r)
		row.MTU, row.Size, row.Family, row.Authority = faultMTU, faultSize, string(peer.V4), b.authority
		jobs = append(jobs, oneRow(row, func(p *pair, row *Row) error {
			m := measured{}
			err := row.whileStarved(func() error { return e.oneMicro(p, b, m) })
			if len(m) > 0 {
				row.Measured = m
			}
			if errors.Is(err, errNotMeasured) {
				*row = row.skipped(err.Error())
				return nil
			}
			return err
		}))
	}
	return jobs
}

// errNotMeasured is wrapped where a peer does not show what is looked for, which is no failure.
var errNotMeasured = errors.New("not measured")

func (e *Env) oneMicro(p *pair, b micro, m measured) error {
	par := defaults(peer.RC, peer.V4, faultMTU)
	b.adjust(&par)
	c, err := p.connect(par)
	if err != nil {
		return err
	}
	defer c.close()
	x := watched(c)
	defer x.end()
	if err = b.run(x, m); err != nil && !errors.Is(err, errNotMeasured) {
		return c.excuse(fmt.Errorf("%w\n%s", err, x.tr.Tail(60)), x.tr)
	}
	return err
}

// lose does an operation some times and loses a packet at a position each time. It returns how the losses were mended.
func (x *trial) lose(op peer.Opcode, at position) ([]*analyse.Repair, error) {
	var losses []analyse.Loss
	for range microTimes {
		losses = append(losses, x.loss(at, faultSize))
		x.rule(&wire.Rule{Match: x.target(at, faultSize), Kind: wire.Drop})
		if err := x.transfer(op, faultSize); err != nil {
			return nil, err
		}
	}
	r, err := x.analysed(x.v, atRequester, analyse.Conduct{Losses: losses})
	if err != nil {
		return nil, err
	}
	return r.Repairs, x.checkConduct(x.v) // a NAK is for what is missing, among others
}

// nakLatency loses a packet in the middle, and measures how long the responder takes for the NAK from the packet behind
// the gap on, and the requester from the NAK on until it sends the missing packet.
func nakLatency(op peer.Opcode) func(x *trial, m measured) error {
	return func(x *trial, m measured) error {
		repairs, err := x.lose(op, reqMiddle)
		if err != nil {
			return err
		}
		var made, reacted []time.Duration
		for _, r := range repairs {
			switch {
			case r.NAKs == 0:
				// A requester that sends again on suspicion may have been faster.
				continue
			case r.NAKs > 1 && !isGoroce(x.rsp.p): // which repeats it after a while: see gap.mayNAK
				return fmt.Errorf("%d NAKs for one gap", r.NAKs)
			}
			made = append(made, time.Duration(r.NAKNs-r.ShownNs))
			if r.ResentNs != 0 {
				reacted = append(reacted, time.Duration(r.ResentNs-r.NAKNs))
			}
		}
		if len(made) == 0 {
			return errors.New("no gap was answered with a NAK")
		}
		m.note("nak_made", made)
		m.note("nak_to_resend", reacted)
		return nil
	}
}

// readRecovery loses a response in the middle, and measures how long the requester takes from the response behind the
// gap on until it asks again.
func readRecovery(x *trial, m measured) error {
	repairs, err := x.lose(peer.OpRead, rspMiddle)
	if err != nil {
		return err
	}
	var times []time.Duration
	for _, r := range repairs {
		i := slices.IndexFunc(r.Asked, func(a analyse.Ask) bool { return a.AtNs >= r.ShownNs })
		if i >= 0 && r.ShownNs != 0 {
			times = append(times, time.Duration(r.Asked[i].AtNs-r.ShownNs))
		}
	}
	if len(times) == 0 {
		// All data has come, so that probes must have asked for it before it was missed.
		return fmt.Errorf("%w: no READ was asked for again after a gap", errNotMeasured)
	}
	m.note("gap_to_request", times)
	return nil
}

// timeoutSeries loses the last packet for ever, and measures the times between its transmissions.
func timeoutSeries(x *trial, m measured) error {
	loss := x.loss(reqLast, faultSize)
	x.rule(&wire.Rule{Match: x.target(reqLast, faultSize), Kind: wire.Drop, Times: -1})
	if err := x.recv(2, faultSize); err != nil {
		return err
	}
	if err := x.post(peer.OpSend, 1, faultSize); err != nil {
		return err
	}
	if _, err := x.fails(1, peer.RetryExcErr); err != nil {
		return err
	}
	r, err := x.repair(loss)
	if err != nil {
		return err
	}
	m["transmissions"] = float64(r.Times)
	m["timeout_ms"] = float64((4096 * time.Nanosecond << microTimeout).Microseconds()) / 1e3
	for i := 1; i < len(r.SentNs); i++ {
		m[fmt.Sprintf("interval%d_ms", i)] = float64((r.SentNs[i]-r.SentNs[i-1])/1e3) / 1e3
	}
	if r.Times < shortRetry+1 {
		return fmt.Errorf("the packet was sent %d times, want 1 and %d retries", r.Times, shortRetry)
	}
	return nil
}

// cnpGap marks all packets of a long WRITE, and measures how many CNPs that makes, and how close together.
func cnpGap(x *trial, m measured) error {
	const size = 256 * faultMTU
	match := wire.Match{From: x.req.p.PortName(), Dst: x.rsp.p.Addr(x.family), QPN: x.sq.QPN(), AnyPSN: true}
	marked := x.rule(&wire.Rule{Match: match, Kind: wire.MarkCE, Times: -1})
	if err := x.transfer(peer.OpWrite, size); err != nil {
		return err
	}
	m["ce_packets"] = float64(marked.Hits())
	r, err := x.analysed(x.v, atResponder, analyse.Conduct{})
	if err != nil {
		return err
	}
	if err := breaches(x.rsp.p.Name(), r); err != nil {
		return err
	}
	w := &r.Connections[0].Ways[0]
	m["cnps"] = float64(w.CNPs)
	if w.CNPs > 1 {
		m["cnp_gap_min_us"] = float64(w.CNPGapNs) / 1e3
	}
	if w.CNPs > marked.Hits() {
		return fmt.Errorf("%d CNPs for %d marked packets", w.CNPs, marked.Hits())
	}
	return nil
}

// ackCoalescing posts many WRITEs at once and counts the ACKs.
func ackCoalescing(x *trial, m measured) error {
	const n = 48
	for i := range n {
		wr := x.wr(peer.OpWrite, uint64(i), 512)
		if i < n-1 {
			wr.Flags &^= peer.FlagSignaled
		}
		if err := x.rq.PostSend(wr); err != nil {
			return err
		}
	}
	if _, err := await(x.rq.PollSend, n-1, "requester"); err != nil {
		return err
	}
	r, err := x.analysed(x.v, atResponder, analyse.Conduct{})
	if err != nil {
		return err
	}
	w := &r.Connections[0].Ways[0]
	m["messages"], m["acks"], m["acks_asked_for"] = n, float64(w.ACKs), float64(w.ACKReqs)
	if w.ACKs == 0 {
		return errors.New("no ACK was seen")
	}
	return nil
}

// lossCounters loses a packet and doubles another one, and holds the counters of the two ends against the trace.
func lossCounters(x *trial, m measured) error {
	before := map[*side]map[string]uint64{}
	for _, s := range []*side{x.req, x.rsp} {
		c, err := s.s.Counters()
		if err != nil {
			return err
		}
		before[s] = c
	}
	x.rule(&wire.Rule{Match: x.target(reqMiddle, faultSize), Kind: wire.Drop})
	if err := x.transfer(peer.OpSend, faultSize); err != nil {
		return err
	}
	r, err := x.analysed(x.v, atRequester, analyse.Conduct{})
	if err != nil {
		return err
	}
	naks := r.Connections[0].Ways[0].Sequence
	m["naks_seen"] = float64(naks)
	// The names of rxe and this module, and of ConnectX.
	for _, c := range []struct {
		s     *side
		what  string
		names []string
		least int
	}{
		{x.req, "naks_counted_by_requester", []string{"rcvd_seq_err", "packet_seq_err"}, naks},
		{x.rsp, "gaps_counted_by_responder", []string{"out_of_seq_request", "out_of_sequence"}, min(naks, 1)},
	} {
		name, n, err := counted(c.s.s.Counters, before[c.s], c.names, c.least)
		if err != nil {
			return err
		}
		if name == "" {
			continue // it has no such counter
		}
		m[c.what] = float64(n)
		if n < c.least {
			return fmt.Errorf("%s counts %d in %s, and the wire has seen %d", c.s.p.Name(), n, name, c.least)
		}
	}
	if naks == 0 {
		return fmt.Errorf("%w: the gap was repaired without a NAK", errNotMeasured)
	}
	return nil
}

// A kernel shows a device's counters as it read them last, for a while: 10 ms by default (hw_counters/lifespan).
const (
	countersLag  = 5 * time.Second
	countersStep = 5 * time.Millisecond
)

// counted reads counters until one of some names, the first that is there, is least more than before, or has had the time
// to be. The name is empty if none is there.
func counted(read func() (map[string]uint64, error), before map[string]uint64, names []string, least int) (name string, n int, err error) {
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
