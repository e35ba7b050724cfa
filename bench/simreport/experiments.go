package simreport

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport/cc"
)

// Gaps between CNPs of the notification points that go with the profiles.
const (
	paperCNPNs    = 50 * Microsecond
	mellanoxCNPNs = 4 * Microsecond
)

// IncastSenders are the degrees of incast measured.
var IncastSenders = []int{2, 4, 8, 16}

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
	{"dcqcn-mellanox", cc.DCQCNMellanox, mellanoxCNPNs, PaperRED, 400 * Millisecond, 300 * Millisecond},
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
		{name: "timer 1.5 ms, 150 KB, cut-off marking at 40 KB", file: "strawman", timerNs: 1500 * Microsecond, bytes: 150e3, red: cutoff},
		{name: "timer 1.5 ms, 150 KB, RED", file: "strawman-red", timerNs: 1500 * Microsecond, bytes: 150e3, red: PaperRED},
		{name: "timer 55 us, 10 MB, cut-off marking at 40 KB", file: "paper-cutoff", timerNs: 55 * Microsecond, bytes: 10e6, red: cutoff},
		{name: "timer 55 us, 10 MB, RED (the paper's choice)", file: "paper", timerNs: 55 * Microsecond, bytes: 10e6, red: PaperRED},
	}
}

func (f *fairness) scenario(seed uint64) *Scenario {
	p := cc.Paper()
	p.IncreasePeriodNs, p.ByteCounter = f.timerNs, f.bytes
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
)

// Outcome is the results of all experiments.
type Outcome struct {
	Incast   map[string][]*Result // by scheme, one for each of IncastSenders
	Pmax10   *Result              // 16:1 with marking up to 10 %
	Shallow  []*Result            // none, dcqcn-paper
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
	pmax := paper.scenario("incast 16:1, dcqcn-paper, Pmax 10 %", Incast(16))
	pmax.RED.Pmax = 0.1
	add(pmax, &o.Pmax10)
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
			s.DurationNs = 600 * Millisecond
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
