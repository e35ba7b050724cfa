package simreport

import (
	"cmp"
	"slices"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// PathFlow is one connection of a Path.
type PathFlow struct {
	RTTNs   int64 // without a queue
	StartNs int64
	Op      verbs.WROpcode
	CC      cc.Config
}

// Path is a network whose bottleneck is one cable with a queue that drops what does not fit, and
// marks nothing. Messages of 64 KiB are always queued.
type Path struct {
	Rate       cc.Rate
	Queue      int     // packets
	Loss       float64 // of packets with data
	Back       float64 // the same of those that go the other way
	Burst      float64 // packets in a row that a loss takes on average, if more than 1
	Flows      []PathFlow
	Beside     string  // a TCP flow that is there from the start, too, with the round trip of the first: Cubic or BBR
	Noise      Noise   // of all hosts
	RED        sim.RED // zero: no packet is marked
	Runs       bool    // hosts send runs of packets as one datagram
	Ordinary   bool    // the far end of each flow does not repeat selectively
	Silence    int64   // ns: SilenceTimeout of connections
	Messages   int     // that are queued; 0 is 64, or 4 MiB
	Reads      uint8   // that a connection may have outstanding; 0 is the default
	Changes    []Change
	SmallNs    int64 // there is a message of 64 bytes so often, from a host of its own; 0: none
	CNPNs      int64 // gap between CNPs
	DurationNs int64
	WarmupNs   int64
	Seed       uint64

	watch func(now int64, r *pathRig) // for tests
}

// PathResult is what a run showed, after the warm-up but for Start.
type PathResult struct {
	Goodput     []float64 // Mb/s of payload
	Total       float64
	Utilization float64 // of the bottleneck
	Jain        float64
	Dropped     float64 // part of the packets that came to the bottleneck
	Queue       sim.QueueStats
	PayloadMax  float64 // Mb/s
	Beside      float64 // Mb/s of the TCP flow
	Small       []int64 // ns: what the small messages took, sorted
	Resent      uint64  // packets
	Lost        uint64  // packets: in the queue or else
	Broken      error   // of the connection
	After       []int64 // ns from the end of each change until nine tenths of the rate; -1: never
}

const pathMessage = 64 << 10

// RunPath plays it.
func RunPath(s *Path) (*PathResult, error) {
	res := &PathResult{PayloadMax: s.Rate.Gbit() * 1000 * 1024 / wireBytes}
	r := &pathRig{s: s}
	defer r.close()
	if err := r.build(); err != nil {
		return nil, err
	}
	before := make([]int64, len(r.senders))
	warm := false
	step := 20 * Microsecond
	if s.Rate > 10*cc.Gbps {
		step = 2 * Microsecond
	}
	r.change()
	var st0 uint64
	var tcp0 int64
	for now := int64(0); now < s.DurationNs; now = r.f.Now() {
		if !warm && now >= s.WarmupNs {
			warm = true
			r.neck.ResetQueue()
			st0 = r.f.Stats().Overflowed
			for i, h := range r.senders {
				before[i] = h.delivered
			}
			if r.tcp != nil {
				tcp0 = r.tcp.delivered
			}
			r.took = r.took[:0]
		}
		if res.Broken = r.work(now); res.Broken != nil {
			break
		}
		r.note(now)
		if s.watch != nil {
			s.watch(now, r)
		}
		r.f.RunFor(time.Duration(step))
	}
	span := float64(s.DurationNs - s.WarmupNs)
	for i, h := range r.senders {
		res.Goodput = append(res.Goodput, float64(h.delivered-before[i])*8000/span)
		res.Total += res.Goodput[i]
	}
	if r.tcp != nil {
		res.Beside = float64((r.tcp.delivered-tcp0)*tcpPayload) * 8000 / span
	}
	res.Queue = r.neck.QueueStats()
	res.Utilization = res.Queue.Utilization()
	res.Jain = Jain(res.Goodput)
	if n := res.Queue.Packets; n > 0 {
		res.Dropped = float64(r.f.Stats().Overflowed-st0) / float64(n)
	}
	slices.Sort(r.took)
	res.Small = r.took
	for _, d := range r.devices {
		res.Resent += d.Counters().RetransmittedPkts
	}
	res.Lost = r.f.Stats().Overflowed + r.f.Stats().Lost
	for i := range s.Changes {
		res.After = append(res.After, r.after(i))
	}
	if res.Broken != nil && len(s.Changes) == 0 {
		return nil, res.Broken
	}
	return res, nil
}

// pathRig is a path in the making.
type pathRig struct {
	s       *Path
	f       *sim.Fabric
	neck    *sim.Trunk
	devices []*verbs.Device
	hosts   []*noisyLink
	senders []*sender
	ends    []*noisyLink // where the programs of the senders are
	tcp     *tcp
	small   *sender
	asked   int64 // when the last small message was posted
	took    []int64
	had     []int64   // bytes that had been delivered, each noteNs
	rates   []cc.Rate // from each change on
}

func (r *pathRig) close() {
	for _, d := range r.devices {
		_ = d.Close()
	}
}

// host adds one with a round trip to the first, on the other side of the bottleneck.
func (r *pathRig) host(rttNs int64) (*noisyLink, error) {
	fast := sim.Pipe{BitsPerSecond: int64(40 * max(r.s.Rate, cc.Gbps)), Latency: time.Duration(rttNs / 2)}
	i := len(r.hosts)
	l, err := r.f.LinkWith(fast, fast, hostAddr(i))
	if err != nil {
		return nil, err
	}
	r.hosts = append(r.hosts, noisy(l, r.s.Noise, r.s.Seed, i))
	r.hosts[i].runs = r.s.Runs
	return r.hosts[i], nil
}

func (r *pathRig) device(l *noisyLink, conf cc.Config, goBackN bool) (*verbs.Device, error) {
	if r.s.Noise.EveryNs == 0 {
		conf.Burst = -1
	}
	d, err := verbs.Open(verbs.Config{Link: l, Rand: r.f.Rand(), Tuning: transport.Tuning{
		Congestion: conf, CNPGap: time.Duration(r.s.CNPNs), GoBackN: goBackN,
	}})
	if err == nil {
		r.devices = append(r.devices, d)
	}
	return d, err
}

func (r *pathRig) build() error {
	s := r.s
	r.f = sim.New(sim.Config{Seed: s.Seed, MTU: pathMTU})
	r.neck = r.f.NewTrunk(r.pipe())
	dst, err := r.host(0)
	if err != nil {
		return err
	}
	to, err := r.device(dst, s.Flows[0].CC, s.Ordinary && s.Flows[0].Op != verbs.WRRead)
	if err != nil {
		return err
	}
	for i := range s.Flows {
		x := &s.Flows[i]
		// The data of a READ comes through the bottleneck, too.
		if err := r.flow(x, [2]*noisyLink{nil, dst}, to); err != nil {
			return err
		}
	}
	if s.SmallNs > 0 {
		if err := r.flow(&PathFlow{RTTNs: s.Flows[0].RTTNs, Op: verbs.WRWrite}, [2]*noisyLink{nil, dst},
			to); err != nil {
			return err
		}
		n := len(r.senders) - 1
		r.small, r.senders = r.senders[n], r.senders[:n]
		r.small.queue, r.small.wr.SGList[0].Length = 1, 64
	}
	if s.Beside != "" {
		var ends [2]*sim.Link
		for i := range ends {
			h, err := r.host(s.Flows[0].RTTNs * int64(1-i))
			if err != nil {
				return err
			}
			ends[i] = h.Link
		}
		r.f.Route(ends[0].Addrs()[0], ends[1].Addrs()[0], r.neck)
		if r.tcp, err = newTCP(s.Beside, r.f, ends[0], ends[1]); err != nil {
			return err
		}
	}
	return nil
}

// flow adds one.
func (r *pathRig) flow(x *PathFlow, at [2]*noisyLink, to *verbs.Device) error {
	l, err := r.host(x.RTTNs)
	if err != nil {
		return err
	}
	at[0] = l
	from, err := r.device(l, x.CC, r.s.Ordinary && x.Op == verbs.WRRead)
	if err != nil {
		return err
	}
	ends, program := [2]*verbs.Device{from, to}, l
	if x.Op == verbs.WRRead {
		ends[0], ends[1], program = to, from, at[1]
	}
	h, err := r.s.pair(ends, x.Op)
	if err != nil {
		return err
	}
	h.flow = &Flow{StartNs: x.StartNs}
	r.senders, r.ends = append(r.senders, h), append(r.ends, program)
	src, dst := l.Addrs()[0], hostAddr(0)
	r.f.Route(src, dst, r.neck)
	r.f.SetFaults(src, dst, sim.Faults{Loss: r.s.Loss, Burst: r.s.Burst})
	r.f.SetFaults(dst, src, sim.Faults{Loss: r.s.Back, Burst: r.s.Burst})
	return nil
}

// work lets the programs go on.
func (r *pathRig) work(now int64) error {
	for i, h := range r.senders {
		if r.ends[i].stalls() {
			continue
		}
		if err := h.work(now); err != nil {
			return err
		}
	}
	h := r.small
	if h == nil {
		return nil
	}
	if h.posted > 0 {
		var wc [1]verbs.WC
		if n, err := h.cq.Poll(wc[:]); n == 0 || err != nil {
			return err
		}
		if err := verbs.WCError(&wc[0]); err != nil {
			return err
		}
		h.posted = 0
		r.took = append(r.took, now-r.asked)
	}
	if now < r.asked+r.s.SmallNs {
		return nil
	}
	r.asked, h.posted = now, 1
	return h.qp.PostSend(&h.wr)
}

// pair connects the two ends of a flow.
func (s *Path) pair(dev [2]*verbs.Device, op verbs.WROpcode) (*sender, error) {
	h := &sender{dev: dev[0], queue: cmp.Or(s.Messages, 64)}
	var mrs [2]*verbs.MR
	var qps [2]*verbs.QP
	var cqs [2]*verbs.CQ
	attr := verbs.DefaultConnAttr()
	attr.MTU, attr.SilenceTimeout = pathMTU, time.Duration(s.Silence)
	attr.MaxRdAtomic = cmp.Or(s.Reads, attr.MaxRdAtomic)
	attr.MaxDestRdAtomic = attr.MaxRdAtomic
	for i, d := range dev {
		pd, err := d.AllocPD()
		if err != nil {
			return nil, err
		}
		if cqs[i], err = d.CreateCQ(256, nil); err != nil {
			return nil, err
		}
		if mrs[i], err = pd.RegisterMR(make([]byte, pathMessage), verbs.AccessAll, nil); err != nil {
			return nil, err
		}
		if qps[i], err = pd.CreateQP(verbs.QPInitAttr{
			Type: verbs.RC, SendCQ: cqs[i], Caps: verbs.QPCaps{MaxSendWR: 128, MaxRecvWR: 128},
		}); err != nil {
			return nil, err
		}
	}
	if err := qps[1].Connect(qps[0].LocalInfo(0), &attr); err != nil {
		return nil, err
	}
	if err := qps[0].Connect(qps[1].LocalInfo(0), &attr); err != nil {
		return nil, err
	}
	h.qp, h.cq = qps[0], cqs[0]
	h.wr = verbs.SendWR{
		Opcode: op, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mrs[0].SGE(0, pathMessage)},
		RemoteAddr: mrs[1].Addr(), RKey: mrs[1].RKey(),
	}
	if op == verbs.WRSend {
		h.to, h.takes, h.recv = qps[1], cqs[1], verbs.RecvWR{SGList: []verbs.SGE{mrs[1].SGE(0, pathMessage)}}
		for range 128 {
			if err := h.to.PostRecv(&h.recv); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}
