package simreport

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport/cc"
)

// Gaps between CNPs of the notification points that go with the profiles.
const (
	paperCNPNs    = 50 * Microsecond
	mellanoxCNPNs = 4 * Microsecond
)

// IncastSenders are the degrees of incast measured.
var IncastSenders = []int{2, 4, 8, 16, 20}

// scheme is a way to control congestion.
type scheme struct {
	name     string
	cc       cc.Algorithm
	cnpNs    int64
	red      sim.RED
	duration int64
	warmup   int64
}

// The schemes. ConnectX's defaults increase a rate by 5 or 50 Mb/s in 300 us
// where the paper does by 40 Mb/s in 55 us, so that they need longer to settle.
var schemes = []scheme{
	{"none", cc.None, -1, sim.RED{}, 20 * Millisecond, 10 * Millisecond},
	{"dcqcn-paper", cc.DCQCNPaper, paperCNPNs, PaperRED, 120 * Millisecond, 60 * Millisecond},
	{"dcqcn-mellanox", cc.DCQCNMellanox, mellanoxCNPNs, PaperRED, 240 * Millisecond, 120 * Millisecond},
}

func (x *scheme) scenario(name string, flows []Flow) *Scenario {
	return &Scenario{
		Name: name, Flows: flows, CC: cc.Config{Algorithm: x.cc}, CNPNs: x.cnpNs, RED: x.red,
		DurationNs: x.duration, WarmupNs: x.warmup, SampleNs: 20 * Microsecond, Seed: 1,
	}
}

// fairness is one parameter set of the experiment on convergence (paper,
// section 5.2): two flows that begin at 40 and 5 Gb/s.
type fairness struct {
	name    string
	file    string
	timerNs int64
	bytes   int64
	red     sim.RED
	results []*Result // one a seed
}

// cutoff marks nothing up to 40 KB and everything above.
var cutoff = sim.RED{KminBytes: 40e3, KmaxBytes: 40e3, Pmax: 1}

const fairnessSeeds = 3

func fairnessSets() []*fairness {
	return []*fairness{
		{name: "timer 1.5 ms, 150 KB, cut-off marking at 40 KB", file: "strawman",
			timerNs: 1500 * Microsecond, bytes: 150e3, red: cutoff},
		{name: "timer 1.5 ms, 150 KB, RED", file: "strawman-red", timerNs: 1500 * Microsecond,
			bytes: 150e3, red: PaperRED},
		{name: "timer 55 us, 10 MB, cut-off marking at 40 KB", file: "paper-cutoff",
			timerNs: 55 * Microsecond, bytes: 10e6, red: cutoff},
		{name: "timer 55 us, 10 MB, RED (the paper's choice)", file: "paper", timerNs: 55 * Microsecond,
			bytes: 10e6, red: PaperRED},
	}
}

func (f *fairness) scenario(seed uint64) *Scenario {
	p := cc.Paper()
	p.IncreasePeriod, p.ByteCounter = time.Duration(f.timerNs), f.bytes
	return &Scenario{
		Name: fmt.Sprintf("%s, seed %d", f.name, seed), Flows: []Flow{{}, {Rate: 5 * cc.Gbps}},
		CC: cc.Config{Algorithm: cc.DCQCNPaper, Profile: &p}, CNPNs: paperCNPNs, RED: f.red,
		DurationNs: 150 * Millisecond, WarmupNs: 100 * Millisecond, SampleNs: 20 * Microsecond, Seed: seed,
	}
}

// Times of the experiments with flows that come and go.
const (
	lateStartNs = 20 * Millisecond
	leaveNs     = 60 * Millisecond
	shallow     = 1 << 20 // bytes
	shallowK    = 8
	longNs      = 600 * Millisecond
)

// longSenders are the degrees of incast that are watched for longer.
var longSenders = []int{8, 16}

// variant is 16:1 with the paper's profile and one thing changed.
type variant struct {
	name   string
	change func(*Scenario)
	result *Result
}

// variants look for what 16:1 depends on: where the switch marks, the start, the granularity of
// the senders, the strength of the reaction, how much is marked.
func variants() []*variant {
	profile := func(change func(*cc.Profile)) func(*Scenario) {
		return func(s *Scenario) {
			p := cc.Paper()
			change(&p)
			s.CC.Profile = &p
		}
	}
	arriving := func(s *Scenario) { s.MarkArriving = true }
	return []*variant{
		{name: "nothing", change: func(*Scenario) {}},
		{name: "marks by the queue that a packet finds", change: arriving},
		{name: "the same, flows start 2 ms apart", change: func(s *Scenario) {
			arriving(s)
			for i := range s.Flows {
				s.Flows[i].StartNs = int64(i) * 2 * Millisecond
			}
		}},
		{name: "the same, flows start at 2.5 Gb/s, their share", change: func(s *Scenario) {
			arriving(s)
			for i := range s.Flows {
				s.Flows[i].Rate = 2500 * cc.Mbps
			}
		}},
		{name: "the same, additive increase of 10 Mb/s, not 40", change: func(s *Scenario) {
			arriving(s)
			profile(func(p *cc.Profile) { p.AdditiveIncrease = 10 * cc.Mbps })(s)
		}},
		{name: "the same, Pmax 10 %", change: func(s *Scenario) { arriving(s); s.RED.Pmax = 0.1 }},
		{name: "senders hand over 64 us at a time, as over sockets",
			change: func(s *Scenario) { s.BatchNs = cc.BurstNs }},
		{name: "a CNP for each mark, without gap", change: func(s *Scenario) { s.CNPNs = 1 }},
		{name: "additive increase of 10 Mb/s, not 40",
			change: profile(func(p *cc.Profile) { p.AdditiveIncrease = 10 * cc.Mbps })},
		{name: "Pmax 2 %", change: func(s *Scenario) { s.RED.Pmax = 0.02 }},
		{name: "Pmax 10 %", change: func(s *Scenario) { s.RED.Pmax = 0.1 }},
	}
}

// variantSenders is the incast of the variants.
const variantSenders = 16

// closPaths are those of four senders across a Clos network: two under one switch, whose packets
// meet again on the last cable but one, a third under another, and the fourth under the receiver's.
func closPaths() [][]int {
	const shared = 3
	return [][]int{{0, 1, 2, shared}, {4, 5, 6, shared}, {7, 8, 9, 10}, {}}
}

// Outcome is the results of all experiments.
type Outcome struct {
	Incast   map[string][]*Result // by scheme, one for each of IncastSenders
	Pmax10   []*Result            // dcqcn-paper with marking up to 10 %, one for each of IncastSenders
	Variants []*variant
	Clos     []*Result // by scheme
	Long     []*Result // dcqcn-mellanox, longer, for each of longSenders
	Shallow  []*Result // none, dcqcn-paper
	Late     *Result
	Lone     []*Result // dcqcn-paper, dcqcn-mellanox
	Fairness []*fairness
}

// Experiments runs everything, as many at a time as there are processors, and
// tells progress after each run.
func Experiments(progress func(*Result)) (*Outcome, error) {
	o := &Outcome{Incast: map[string][]*Result{}, Fairness: fairnessSets()}
	type job struct {
		s   *Scenario
		out **Result
	}
	var jobs []job
	add := func(s *Scenario, out **Result) { jobs = append(jobs, job{s, out}) }
	for i := range schemes {
		x := &schemes[i]
		rs := make([]*Result, len(IncastSenders))
		o.Incast[x.name] = rs
		for j, k := range IncastSenders {
			add(x.scenario(fmt.Sprintf("incast %d:1, %s", k, x.name), Incast(k)), &rs[j])
		}
	}
	none, paper, mellanox := &schemes[0], &schemes[1], &schemes[2]
	o.Pmax10 = make([]*Result, len(IncastSenders))
	for j, k := range IncastSenders {
		s := paper.scenario(fmt.Sprintf("incast %d:1, dcqcn-paper, Pmax 10 %%", k), Incast(k))
		s.RED.Pmax = 0.1
		add(s, &o.Pmax10[j])
	}
	o.Variants = variants()
	for _, v := range o.Variants {
		s := paper.scenario("incast 16:1, "+v.name, Incast(variantSenders))
		v.change(s)
		add(s, &v.result)
	}
	o.Clos = make([]*Result, len(schemes))
	for i := range schemes {
		s := schemes[i].scenario("Clos, "+schemes[i].name, Incast(4))
		s.Paths = closPaths()
		add(s, &o.Clos[i])
	}
	o.Long = make([]*Result, len(longSenders))
	for i, k := range longSenders {
		s := mellanox.scenario(fmt.Sprintf("incast %d:1, dcqcn-mellanox, longer", k), Incast(k))
		s.DurationNs, s.WarmupNs = longNs, 200*Millisecond
		add(s, &o.Long[i])
	}
	o.Shallow = make([]*Result, 2)
	for i, x := range []*scheme{none, paper} {
		s := x.scenario(fmt.Sprintf("incast %d:1, 1 MiB buffer, %s", shallowK, x.name), Incast(shallowK))
		s.Buffer, s.DurationNs, s.WarmupNs = shallow, paper.duration, paper.warmup
		add(s, &o.Shallow[i])
	}
	late := paper.scenario("late flow, dcqcn-paper", []Flow{{}, {}, {}, {StartNs: lateStartNs}})
	late.WarmupNs = lateStartNs
	add(late, &o.Late)
	o.Lone = make([]*Result, 2)
	for i, x := range []*scheme{paper, mellanox} {
		s := x.scenario("lone flow, "+x.name, []Flow{{}, {StopNs: leaveNs}})
		s.DurationNs, s.WarmupNs = 200*Millisecond, leaveNs
		if x == mellanox {
			s.DurationNs = 300 * Millisecond
		}
		add(s, &o.Lone[i])
	}
	for _, f := range o.Fairness {
		f.results = make([]*Result, fairnessSeeds)
		for seed := range f.results {
			add(f.scenario(uint64(seed+1)), &f.results[seed])
		}
	}

	var (
		mu    sync.Mutex
		next  int
		first error
		wg    sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				mu.Lock()
				if next == len(jobs) || first != nil {
					mu.Unlock()
					return
				}
				j := jobs[next]
				next++
				mu.Unlock()
				r, err := Run(j.s)
				mu.Lock()
				*j.out = r
				if err != nil && first == nil {
					first = err
				} else if err == nil && progress != nil {
					progress(r)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return o, first
}
