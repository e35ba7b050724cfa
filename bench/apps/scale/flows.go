package scale

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// Flows is the experiment by which IRN (SIGCOMM 2018) is judged: WRITEs between random hosts of a
// fat tree, at random times. Half of them are of one packet (32 to 1,024 bytes), 35 of 100 have up
// to 200 kB, 15 have 200 kB to 3 MB. A WRITE has a queue pair of its two hosts for itself, if one
// is free, and takes from its posting to its completion.
type Flows struct {
	Hosts      int
	Load       float64       // of each host's cable, headers included
	For        time.Duration // how long flows begin
	Rate       int64
	Cable      time.Duration
	QueueBytes int // of each port
	Window     int // packets that a queue pair has on its way at most
	GoBackN    bool
	RED        sim.RED
	Congestion cc.Config
	Seed       uint64
	PFC        sim.PFC
	Peers      int // to how many others a host sends, all at distances drawn once; 0: to all of them
}

// FlowResult is what a run of Flows tells.
type FlowResult struct {
	Times     []time.Duration // of each flow
	Slowdowns []float64       // against what the flow takes alone
	Small     []time.Duration // of the flows of one packet
	Sent      uint64          // packets that hosts sent
	Again     uint64          // of these, sent again
	Dropped   uint64          // by ports of switches
	Pauses    uint64          // that they asked for
	Wall      time.Duration   // of the simulation
}

const (
	flowMTU  = ib.MTU1024
	ways     = 3 // queue pairs of two hosts
	largest  = 3_000_000
	ackBytes = 82
)

// flowBytes draws the size of a flow.
func flowBytes(rng *rand.Rand) int {
	switch x := rng.Float64(); {
	case x < 0.5:
		return 32 + rng.IntN(1024-32+1)
	case x < 0.85:
		return 1025 + rng.IntN(200_000-1025)
	}
	return 200_000 + rng.IntN(largest-200_000+1)
}

// meanFlow is the mean of flowBytes.
const meanFlow = 0.5*(32+1024)/2 + 0.35*(1025+200_000)/2 + 0.15*(200_000+largest)/2

func (f Flows) onWire(bytes int) int {
	packets := max(1, (bytes+flowMTU.Bytes()-1)/flowMTU.Bytes())
	return bytes + packets*headers
}

func (f Flows) serial(bytes int) time.Duration {
	return time.Duration(float64(bytes) * 8e9 / float64(f.Rate))
}

// alone is what a flow takes in an empty network: all of it leaves at the rate of the cable, the
// last packet passes the other cables, and an acknowledgement comes back.
func (f Flows) alone(bytes, cables int) time.Duration {
	last := bytes % flowMTU.Bytes()
	if last == 0 {
		last = flowMTU.Bytes()
	}
	hops := time.Duration(cables)
	return f.serial(f.onWire(bytes)) + hops*f.Cable + (hops-1)*f.serial(last+headers) +
		hops*(f.Cable+f.serial(ackBytes))
}

// flow is one, and when it begins.
type flow struct {
	at    time.Duration
	to    int
	bytes int
	begin time.Time
	way   int // the queue pair
}

// flowHost is a host, the ends of its queue pairs, and its flows.
type flowHost struct {
	device *verbs.Device
	pd     *verbs.PD
	cq     *verbs.CQ
	mr     *verbs.MR
	to     []int                    // where it sends
	qps    map[int]*[ways]*verbs.QP // by the host at the other end
	busy   map[int]*[ways]int       // flows on each
	flows  []flow                   // by the ID of the work request
}

// draw draws the flows of a host.
func (f Flows) draw(from int, to []int) (flows []flow) {
	rng := rand.New(rand.NewPCG(f.Seed, 100+uint64(from)))
	// Between two of them, ns.
	mean := meanFlow * float64(flowMTU.Bytes()+headers) / float64(flowMTU.Bytes()) * 8e9 / (f.Load * float64(f.Rate))
	for at := rng.ExpFloat64() * mean; at < float64(f.For); at += rng.ExpFloat64() * mean {
		flows = append(flows, flow{at: time.Duration(at), to: to[rng.IntN(len(to))], bytes: flowBytes(rng)})
	}
	return flows
}

// Run runs it.
func (f Flows) Run() (*FlowResult, error) {
	r := &FlowResult{}
	begin := time.Now()
	var err error
	pipe := cable(f.Rate, f.Cable, f.QueueBytes, f.RED)
	cfg := network(f.Seed, pipe)
	cfg.MTU, cfg.PFC = flowMTU, f.PFC
	sim.Run(cfg, func(fabric *sim.Fabric) { err = f.run(fabric, pipe, r) })
	r.Wall = time.Since(begin)
	return r, err
}

func (f Flows) run(fabric *sim.Fabric, pipe sim.Pipe, r *FlowResult) error {
	tree := NewTree(fabric, f.Hosts, pipe, f.Seed)
	hosts, err := f.connected(fabric, tree)
	if err == nil {
		err = f.send(fabric, tree, hosts, r)
	}
	st := fabric.Stats()
	r.Sent, r.Dropped, r.Pauses = st.Sent, st.Overflowed, st.Pauses
	for _, h := range hosts {
		r.Again += h.device.Counters().RetransmittedPkts
		err = errors.Join(err, h.device.Close())
	}
	return err
}

// targets are the hosts to which one sends.
func (f Flows) targets(from int) (to []int) {
	if f.Peers == 0 {
		for i := range f.Hosts {
			if i != from {
				to = append(to, i)
			}
		}
		return to
	}
	for _, far := range rand.New(rand.NewPCG(f.Seed, 3)).Perm(f.Hosts - 1)[:min(f.Peers, f.Hosts-1)] {
		to = append(to, (from+1+far)%f.Hosts)
	}
	return to
}

// connected makes the hosts, and queue pairs between those of which one sends to the other. What it
// made is returned with an error, too.
func (f Flows) connected(fabric *sim.Fabric, tree *Tree) (hosts []*flowHost, err error) {
	memory := make([]byte, largest) // of all hosts: nobody looks at what is in it
	for i := range f.Hosts {
		h, err := f.host(fabric, i, memory)
		if err != nil {
			return hosts, err
		}
		hosts = append(hosts, h)
	}
	for a := range hosts {
		for b := range a {
			if !slices.Contains(hosts[a].to, b) && !slices.Contains(hosts[b].to, a) {
				continue
			}
			tree.Connect(a, b)
			if err := f.connect(hosts, a, b); err != nil {
				return hosts, err
			}
		}
	}
	return hosts, nil
}

// send sends what there is to send, and waits for the end of it.
func (f Flows) send(fabric *sim.Fabric, tree *Tree, hosts []*flowHost, r *FlowResult) error {
	errs := make([]error, 2*f.Hosts)
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, h := range hosts {
		all.Go(func() { errs[2*i] = h.post(fabric, hosts) })
		all.Go(func() {
			errs[2*i+1] = h.poll(func(fl *flow, took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				r.ended(took, f.alone(fl.bytes, tree.Cables(i, fl.to)), fl.bytes)
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (f Flows) host(fabric *sim.Fabric, i int, memory []byte) (*flowHost, error) {
	l, err := fabric.Link(Addr(i))
	if err != nil {
		return nil, err
	}
	conf := f.Congestion
	conf.LineRate = cc.Rate(f.Rate) / 8
	h := &flowHost{qps: map[int]*[ways]*verbs.QP{}, busy: map[int]*[ways]int{}, to: f.targets(i)}
	h.flows = f.draw(i, h.to)
	h.device, err = verbs.Open(verbs.Config{Link: l, Rand: fabric.Rand(), Tuning: transport.Tuning{
		MaxUnackedPackets: f.Window, GoBackN: f.GoBackN, LossProbe: f.probe(), Congestion: conf}})
	if err != nil {
		return nil, err
	}
	if h.pd, err = h.device.AllocPD(); err != nil {
		return nil, err
	}
	if h.cq, err = h.device.CreateCQ(4096, nil); err != nil {
		return nil, err
	}
	if h.mr, err = h.pd.RegisterMR(memory, verbs.AccessAll, nil); err != nil {
		return nil, err
	}
	return h, nil
}

// probe is when a queue pair that hears nothing asks: without PFC soon.
func (f Flows) probe() time.Duration {
	if f.PFC != (sim.PFC{}) {
		return -1
	}
	return 100 * time.Microsecond
}

// connect connects two hosts.
func (f Flows) connect(hosts []*flowHost, a, b int) error {
	attr := verbs.DefaultConnAttr()
	attr.Timeout = 7 // 524 us: longer than all queues of a way
	if f.PFC != (sim.PFC{}) {
		attr.Timeout = 14 // 67 ms: nothing is lost, and what is paused must not be sent again
	}
	attr.SilenceTimeout = time.Second
	for _, ends := range [][2]int{{a, b}, {b, a}} {
		h, to := hosts[ends[0]], ends[1]
		h.qps[to], h.busy[to] = new([ways]*verbs.QP), new([ways]int)
		for way := range ways {
			var err error
			h.qps[to][way], err = h.pd.CreateQP(
				verbs.QPInitAttr{Type: verbs.RC, SendCQ: h.cq, Caps: verbs.QPCaps{MaxSendWR: 64}})
			if err != nil {
				return err
			}
		}
	}
	var all error
	for way := range ways {
		x, y := hosts[a].qps[b][way], hosts[b].qps[a][way]
		all = errors.Join(all, x.Connect(y.LocalInfo(0), &attr), y.Connect(x.LocalInfo(0), &attr))
	}
	return all
}

// post begins the flows of a host.
func (h *flowHost) post(fabric *sim.Fabric, hosts []*flowHost) error {
	begin := time.Now()
	for i := range h.flows {
		fl := &h.flows[i]
		time.Sleep(time.Until(begin.Add(fl.at)))
		fabric.Turn()
		fl.begin = time.Now()
		dst, busy := hosts[fl.to].mr, h.busy[fl.to]
		fl.way = slices.Index(busy[:], slices.Min(busy[:]))
		busy[fl.way]++
		err := h.qps[fl.to][fl.way].PostSend(&verbs.SendWR{ID: uint64(i), Opcode: verbs.WRWrite,
			Flags: verbs.SendSignaled, SGList: []verbs.SGE{h.mr.SGE(0, fl.bytes)}, RemoteAddr: dst.Addr(),
			RKey: dst.RKey()})
		if err != nil {
			return err
		}
	}
	return nil
}

// poll waits for the end of them all.
func (h *flowHost) poll(ended func(fl *flow, took time.Duration)) error {
	var wcs [16]verbs.WC
	for left := len(h.flows); left > 0; {
		n, err := h.cq.Wait(context.Background(), wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := verbs.WCError(&wcs[i]); err != nil {
				return err
			}
			fl := &h.flows[wcs[i].ID]
			h.busy[fl.to][fl.way]--
			ended(fl, time.Since(fl.begin))
		}
		left -= n
	}
	return nil
}

// ended notes the end of a flow.
func (r *FlowResult) ended(took, alone time.Duration, bytes int) {
	r.Times = append(r.Times, took)
	r.Slowdowns = append(r.Slowdowns, float64(took)/float64(alone))
	if bytes <= flowMTU.Bytes() {
		r.Small = append(r.Small, took)
	}
}

// Mean is the mean of times.
func Mean[T ~int64 | ~float64](all []T) T {
	var sum T
	for _, x := range all {
		sum += x
	}
	return sum / T(max(len(all), 1))
}

// Percentile is that of which p (0 to 1) of all are not more.
func Percentile[T cmp.Ordered](all []T, p float64) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
