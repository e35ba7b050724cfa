package simreport

import (
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// LossWindows are the packets on their way in a round trip, and LossRates the probabilities of a loss, of the experiment on loss.
var (
	LossWindows = []int{12, 122, 1220}
	LossRates   = []float64{0.0001, 0.001, 0.01, 0.05}
)

// lossWindow is how many round trips of packets may be outstanding: one that is lost some times over must not
// keep the others back.
const lossWindow = 6

// Lossy is one connection over a path that loses packets with data, each by itself. Messages are always queued, and the sender
// is paced at the rate of the port, so that Window packets are on their way.
type Lossy struct {
	Window  int
	Loss    float64
	GoBackN bool // the receiver keeps nothing
	Read    bool // the data is that of READs
	Packets int  // that could be sent in the time that is measured
	Seed    uint64
}

// Expected is the part of the rate that is left in theory: of each lost packet a window is lost, or the packet alone.
func (s *Lossy) Expected() float64 {
	p := s.Loss
	if s.GoBackN {
		return (1 - p) / ((1 - p) + p*float64(s.Window))
	}
	return 1 - p
}

// LossResult is what a run showed.
type LossResult struct {
	Efficiency float64 // goodput, of that of the port
	Resent     uint64
	Timeouts   uint64
}

// RunLossy plays it.
func RunLossy(s *Lossy) (*LossResult, error) {
	res := &LossResult{}
	packetNs := float64(wireBytes) * 8 / LineRate.Gbit()
	latency := time.Duration(max(float64(s.Window)*packetNs/4-packetNs/2, 1))
	pipe := sim.Pipe{BitsPerSecond: int64(LineRate), Latency: latency}
	f := sim.New(sim.Config{Seed: s.Seed, Up: pipe, Down: pipe, MTU: pathMTU})
	var dev [2]*verbs.Device
	for i := range dev {
		l, err := f.Link(hostAddr(i))
		if err != nil {
			return nil, err
		}
		conf := cc.Config{Algorithm: cc.DCQCNPaper, LineRate: LineRate, Capped: true, Burst: -1}
		dev[i], err = verbs.Open(verbs.Config{Link: l, Rand: f.Rand(), Tuning: transport.Tuning{
			Congestion: conf, MaxUnackedPackets: max(lossWindow*s.Window, windowPackets), SelectiveRepeat: i == 0 || !s.GoBackN, AckReqInterval: max(s.Window/8, 1),
		}})
		if err != nil {
			return nil, err
		}
		defer dev[i].Close()
	}
	r := rig{s: &Scenario{}}
	h, err := r.pairOf(dev)
	if err != nil {
		return nil, err
	}
	from, to := hostAddr(0), hostAddr(1)
	if s.Read {
		h.wr.Opcode = verbs.WRRead
		from, to = to, from
	}
	f.SetFaults(from, to, sim.Faults{Loss: s.Loss})
	step := time.Duration(max(packetNs*4, float64(s.Window)*packetNs/16))
	const warm = 4
	rtt := int64(float64(s.Window) * packetNs)
	begin, length := warm*rtt, int64(float64(s.Packets)*packetNs)
	var before, at int64
	for now := int64(0); now < begin+length; now = f.Now() {
		if at == 0 && now >= begin {
			before, at = h.delivered, now
		}
		if err := h.work(now); err != nil {
			return nil, err
		}
		f.RunFor(step)
	}
	if err := h.work(f.Now()); err != nil {
		return nil, err
	}
	res.Efficiency = float64(h.delivered-before) * 8 / float64(f.Now()-at) / payloadGbps
	for _, d := range dev {
		c := d.Counters()
		res.Resent += c.RetransmittedPkts
		res.Timeouts += c.Timeouts
	}
	return res, nil
}

// pairOf connects two devices.
func (r *rig) pairOf(dev [2]*verbs.Device) (*sender, error) {
	h := &sender{flow: &Flow{}, dev: dev[0], queue: lossMessages}
	var mrs [2]*verbs.MR
	var qps [2]*verbs.QP
	attr := verbs.DefaultConnAttr()
	attr.MTU = pathMTU
	attr.MaxRdAtomic, attr.MaxDestRdAtomic = transport.MaxRdAtomic, transport.MaxRdAtomic
	for i, d := range dev {
		pd, err := d.AllocPD()
		if err != nil {
			return nil, err
		}
		cq, err := d.CreateCQ(4*lossMessages, nil)
		if err != nil {
			return nil, err
		}
		if mrs[i], err = pd.RegisterMR(make([]byte, messageBytes), verbs.AccessAll); err != nil {
			return nil, err
		}
		if qps[i], err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, Caps: verbs.QPCaps{MaxSendWR: 2 * lossMessages, MaxRecvWR: 1}}); err != nil {
			return nil, err
		}
		if i == 0 {
			h.cq = cq
		}
	}
	if err := qps[1].Connect(qps[0].LocalInfo(0), &attr); err != nil {
		return nil, err
	}
	if err := qps[0].Connect(qps[1].LocalInfo(0), &attr); err != nil {
		return nil, err
	}
	h.qp = qps[0]
	h.wr = verbs.SendWR{
		Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mrs[0].SGE(0, messageBytes)},
		RemoteAddr: mrs[1].Addr(), RKey: mrs[1].RKey(),
	}
	return h, nil
}

// lossMessages are queued: more than the largest window.
const lossMessages = 1024
