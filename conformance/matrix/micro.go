package matrix

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goroce/goroce/conformance/lab/ether"
	"github.com/goroce/goroce/conformance/peer"
	"github.com/goroce/goroce/ib"
)

// How a peer reacts, measured on the wire (after Lumina, SIGCOMM 2023). What the specification says
// is judged; times are measured and not judged, because it says nothing of most of them, and
// because machines are busy.

// micro is one behaviour.
type micro struct {
	name      string
	authority string
	adjust    func(*params)
	run       func(x *trial, f *findings)
	// times is on how many connections it is looked at if much is measured (Env.MicroTimes);
	// otherwise on one.
	times int
}

const (
	// microTimes is how often a reaction is measured, unless Env.MicroTimes says it.
	microTimes = 8
	// microTimeout is the ACK timeout's code where it is to run out: 67 ms.
	microTimeout = 14
	// microRetry is retry_cnt where a whole series of timeouts is measured.
	microRetry = 6
)

var micros = []micro{
	{name: "ACK latency",
		authority: "IBTA 9.7.5.1.1: a request that asks is acknowledged; the time is what the others compare with",
		adjust:    patient, run: ackLatency},
	{name: "NAK latency SEND", authority: authorityNAK, adjust: patient, run: nakLatency(peer.OpSend)},
	{name: "NAK latency WRITE", authority: authorityNAK, adjust: patient, run: nakLatency(peer.OpWrite)},
	{name: "NAK latency READ", authority: authorityNAK, adjust: patient, run: nakLatencyRead},
	{name: "READ recovery",
		authority: "IBTA 9.7.5.2.7: the request is issued again for what is missing; times after Lumina",
		adjust:    func(p *params) { p.timeout = tenseTimeout }, run: readRecovery},
	{name: "timeout series",
		authority: "IBTA 9.7.6.1.3: 1 transmission and retry_cnt more; adaptive timers seen on ConnectX (perftest issue 251)",
		adjust:    func(p *params) { p.timeout, p.retry = microTimeout, shortRetry }, run: timeoutSeries, times: 3},
	{name: "CNP for CE", authority: "IBTA annex A17.9.3: BECN, 16 reserved bytes of zero; the gap after Lumina",
		adjust: patient, run: cnpGap, times: 3},
	{name: "ACK coalescing", authority: "IBTA 9.7.5.1.2: the last packet is acknowledged; the number of ACKs is open",
		adjust: patient, run: ackCoalescing, times: 5},
	{name: "counters after a loss", authority: "Lumina: counters equal the trace", adjust: patient, run: lossCounters},
	{name: "counters of all faults", authority: "Lumina: counters equal the trace; measured, not judged",
		adjust: func(p *params) { p.timeout = tenseTimeout }, run: faultCounters},
	{name: "noisy neighbour",
		authority: "Lumina: losses of some queue pairs leave another one alone; measured, not judged",
		adjust:    patient, run: noisyNeighbour},
}

const authorityNAK = "IBTA 9.7.5.2.2: one NAK, for the first missing PSN; times after Lumina"

// microJobs makes the rows of the behaviours.
func (e *Env) microJobs(r role) (jobs []job) {
	for _, b := range micros {
		row := e.row("micro", b.name, r)
		row.MTU, row.Size, row.Family, row.Authority = faultMTU, faultSize, string(peer.V4), b.authority
		jobs = append(jobs, oneRow(row, func(p *pair, row *Row) error {
			f := newFindings()
			err := row.whileStarved(func() error {
				f = newFindings() // what a starved try has measured is no result
				for range e.microConnections(b) {
					if err := e.oneMicro(p, b, f); err != nil {
						return err
					}
				}
				return nil
			})
			row.Measured, row.Samples = f.results()
			if errors.Is(err, errNotMeasured) {
				*row = row.skipped(err.Error())
				return nil
			}
			return err
		}))
	}
	return jobs
}

// microConnections is on how many connections a behaviour is looked at.
func (e *Env) microConnections(b micro) int {
	if e.MicroTimes == 0 {
		return 1
	}
	return max(b.times, 1)
}

// microTimes is how often a reaction is measured.
func (e *Env) microTimes() int {
	if e.MicroTimes == 0 {
		return microTimes
	}
	return e.MicroTimes
}

// errNotMeasured is wrapped where a peer does not show what is looked for, which is no failure.
var errNotMeasured = errors.New("not measured")

func (e *Env) oneMicro(p *pair, b micro, f *findings) error {
	par := defaults(peer.RC, peer.V4, faultMTU)
	b.adjust(&par)
	if e.MicroTimes > 0 && par.retry == shortRetry {
		par.retry = microRetry
	}
	c, err := p.connect(par)
	if err != nil {
		return err
	}
	defer c.close()
	x := watched(c)
	defer x.end()
	if err = peer.Steps(func() { b.run(x, f) }); err != nil && !errors.Is(err, errNotMeasured) {
		return c.excuse(fmt.Errorf("%w\n%s", err, x.tr.Tail(60)), x.tr)
	}
	return err
}

// toResponder reports whether a packet is one of the requester's.
func (x *trial) toResponder(p *ether.Packet) bool {
	return p.Dst == x.rsp.p.Addr(x.family) && p.QPN == x.sq.QPN()
}

// syndromeOf is the syndrome of an acknowledgement; ok is false for other packets.
func syndromeOf(p *ether.Packet) (s ib.Syndrome, ok bool) {
	if !p.IsAck() {
		return 0, false
	}
	v, ok := p.Syndrome()
	return ib.Syndrome(v), ok
}

// ahead is how far a PSN is behind another one in time: positive if it is newer.
func ahead(psn, than uint32) int { return int(ib.PSN(psn).Diff(ib.PSN(than))) }

// measured are the numbers that a row has found, by names that end with the unit.
type measured map[string]float64

// String is all numbers in a line.
func (m measured) String() string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %.6g", k, m[k]))
	}
	return strings.Join(out, ", ")
}

// findings is what a behaviour has shown: single numbers, and samples of what was measured again
// and again.
type findings struct {
	numbers measured
	samples map[sampled][]float64
}

// sampled is what samples are of.
type sampled struct{ what, unit string }

func newFindings() *findings {
	return &findings{numbers: measured{}, samples: map[sampled][]float64{}}
}

// sample adds a sample. The unit may be empty.
func (f *findings) sample(what, unit string, v float64) {
	k := sampled{what, unit}
	f.samples[k] = append(f.samples[k], v)
}

// time adds a time.
func (f *findings) time(what string, d time.Duration) { f.sample(what, "us", float64(d)/1e3) }

// results are the numbers, with the median and the largest of the samples, and the samples
// themselves.
func (f *findings) results() (numbers map[string]float64, samples map[string][]float64) {
	for k, list := range f.samples {
		if samples == nil {
			samples = map[string][]float64{}
		}
		samples[join(k.what, k.unit)] = list
		if len(list) == 1 {
			f.numbers[join(k.what, k.unit)] = list[0]
			continue
		}
		sorted := slices.Sorted(slices.Values(list))
		f.numbers[join(k.what, "p50", k.unit)] = sorted[len(sorted)/2]
		f.numbers[join(k.what, "max", k.unit)] = sorted[len(sorted)-1]
	}
	if len(f.numbers) == 0 {
		return nil, samples
	}
	return f.numbers, samples
}

// join makes a name of its parts, of which the last may be empty.
func join(parts ...string) string { return strings.TrimSuffix(strings.Join(parts, "_"), "_") }
