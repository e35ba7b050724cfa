package simreport

import (
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
	StopNs  int64
	Op      verbs.WROpcode
	CC      cc.Config
}

// Path is a network whose bottleneck is one cable with a queue that drops what does not fit, and marks nothing.
// Messages of 64 KiB are always queued.
type Path struct {
	Rate       cc.Rate
	Queue      int     // packets
	Loss       float64 // of packets with data, before the queue
	Flows      []PathFlow
	DurationNs int64
	WarmupNs   int64
	Seed       uint64

	watch func(now int64, port *sim.Link, senders []*sender) // for tests
}

// PathResult is what a run showed, after the warm-up but for Start.
type PathResult struct {
	Goodput     []float64 // Mb/s of payload
	Total       float64
	Utilization float64 // of the bottleneck
	Jain        float64
	Dropped     float64 // part of the packets that came to the bottleneck
	Queue       sim.QueueStats
	Resent      uint64
	Timeouts    uint64
	PayloadMax  float64 // Mb/s
}

const pathMessage = 64 << 10

// RunPath plays it.
func RunPath(s *Path) (*PathResult, error) {
	res := &PathResult{PayloadMax: s.Rate.Gbit() * 1000 * 1024 / wireBytes}
	fast := sim.Pipe{BitsPerSecond: int64(40 * max(s.Rate, cc.Gbps)), Latency: -1}
	down := sim.Pipe{BitsPerSecond: int64(s.Rate), QueueBytes: s.Queue * wireBytes, Latency: time.Microsecond}
	f := sim.New(sim.Config{Seed: s.Seed, Up: fast, Down: fast, MTU: pathMTU})
	port, err := f.LinkWith(fast, down, hostAddr(0))
	if err != nil {
		return nil, err
	}
	tuning := transport.Tuning{SelectiveRepeat: true}
	dst, err := verbs.Open(verbs.Config{Link: port, Rand: f.Rand(), Tuning: tuning})
	if err != nil {
		return nil, err
	}
	defer dst.Close()
	var senders []*sender
	for i := range s.Flows {
		x := &s.Flows[i]
		up, back := fast, fast
		up.Latency, back.Latency = time.Duration(x.RTTNs/2), time.Duration(x.RTTNs/2)
		l, err := f.LinkWith(up, back, hostAddr(i+1))
		if err != nil {
			return nil, err
		}
		t := tuning
		t.Congestion = x.CC
		t.Congestion.Burst = -1
		dev, err := verbs.Open(verbs.Config{Link: l, Rand: f.Rand(), Tuning: t})
		if err != nil {
			return nil, err
		}
		defer dev.Close()
		ends := [2]*verbs.Device{dev, dst}
		h, err := pathPair(ends, x.Op)
		if err != nil {
			return nil, err
		}
		h.flow = &Flow{StartNs: x.StartNs, StopNs: x.StopNs}
		senders = append(senders, h)
		f.SetFaults(hostAddr(i+1), hostAddr(0), sim.Faults{Loss: s.Loss})
	}
	before := make([]int64, len(senders))
	warm := false
	step := 20 * Microsecond
	if s.Rate > 10*cc.Gbps {
		step = 2 * Microsecond
	}
	var st0 sim.Stats
	for now := int64(0); now < s.DurationNs; now = f.Now() {
		if !warm && now >= s.WarmupNs {
			warm = true
			port.ResetQueues()
			st0 = f.Stats()
			for i, h := range senders {
				before[i] = h.delivered
			}
		}
		for _, h := range senders {
			if err := h.work(now); err != nil {
				return nil, err
			}
		}
		if s.watch != nil {
			s.watch(now, port, senders)
		}
		f.RunFor(time.Duration(step))
	}
	span := float64(s.DurationNs - s.WarmupNs)
	for i, h := range senders {
		res.Goodput = append(res.Goodput, float64(h.delivered-before[i])*8000/span)
		res.Total += res.Goodput[i]
		c := h.dev.Counters()
		res.Resent += c.RetransmittedPkts
		res.Timeouts += c.Timeouts
	}
	_, res.Queue = port.QueueStats()
	res.Utilization = res.Queue.Utilization()
	res.Jain = Jain(res.Goodput)
	st := f.Stats()
	if n := res.Queue.Packets; n > 0 {
		res.Dropped = float64(st.Overflowed-st0.Overflowed) / float64(n)
	}
	return res, nil
}

// pathPair connects the two ends of a flow.
func pathPair(dev [2]*verbs.Device, op verbs.WROpcode) (*sender, error) {
	h := &sender{dev: dev[0], queue: 64}
	var mrs [2]*verbs.MR
	var qps [2]*verbs.QP
	var cqs [2]*verbs.CQ
	attr := verbs.DefaultConnAttr()
	attr.MTU = pathMTU
	for i, d := range dev {
		pd, err := d.AllocPD()
		if err != nil {
			return nil, err
		}
		if cqs[i], err = d.CreateCQ(256, nil); err != nil {
			return nil, err
		}
		if mrs[i], err = pd.RegisterMR(make([]byte, pathMessage), verbs.AccessAll); err != nil {
			return nil, err
		}
		if qps[i], err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cqs[i], Caps: verbs.QPCaps{MaxSendWR: 128, MaxRecvWR: 1}}); err != nil {
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
	return h, nil
}
