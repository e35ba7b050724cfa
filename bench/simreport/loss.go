package simreport

import (
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// LossWindows are the packets on their way in a round trip, and LossRates the probabilities of a
// loss, of the experiment on loss.
var (
	LossWindows = []int{12, 122, 1220}
	LossRates   = []float64{0.0001, 0.001, 0.01, 0.05}
)

// lossWindow is how many round trips of packets may be outstanding: one that is lost some times
// over must not keep the others back.
const lossWindow = 6

// Lossy is one connection over a path that loses packets with data, each by itself. Messages are
// always queued, and the sender is paced at the rate of the port, so that Window packets are on
// their way.
type Lossy struct {
	Window  int
	Loss    float64
	GoBackN bool // the receiver keeps nothing
	Op      verbs.WROpcode
	Packets int // that could be sent in the time that is measured
	Seed    uint64
	bytes   int // of a message; 0 is by the window
}

// Expected is the part of the rate that is left in theory: of each lost packet a window is lost, or
// the packet alone.
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
			Congestion: conf, MaxUnackedPackets: max(lossWindow*s.Window, windowPackets),
			GoBackN: i == 1 && s.GoBackN, AckReqInterval: max(s.Window/8, 1),
		}})
		if err != nil {
			return nil, err
		}
		defer dev[i].Close()
	}
	h, err := s.pairOf(dev)
	if err != nil {
		return nil, err
	}
	from, to := hostAddr(0), hostAddr(1)
	if s.Op == verbs.WRRead {
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
		res.Timeouts += d.Counters().Timeouts
	}
	return res, nil
}

// messageBytes is the length of a message. A connection has no more than 128 READs outstanding, and
// they have to fill the window.
func (s *Lossy) messageBytes() int {
	if s.bytes != 0 {
		return s.bytes
	}
	n := messageBytes
	for n*transport.MaxRdAtomic < lossWindow*s.Window*pathMTU.Bytes() {
		n *= 2
	}
	return n
}

// pairOf connects two devices.
func (s *Lossy) pairOf(dev [2]*verbs.Device) (*sender, error) {
	n := s.messageBytes()
	h := &sender{flow: &Flow{}, dev: dev[0], queue: lossMessages}
	var mrs [2]*verbs.MR
	var qps [2]*verbs.QP
	var cqs [2]*verbs.CQ
	attr := verbs.DefaultConnAttr()
	attr.MTU = pathMTU
	attr.MaxRdAtomic, attr.MaxDestRdAtomic = transport.MaxRdAtomic, transport.MaxRdAtomic
	for i, d := range dev {
		pd, err := d.AllocPD()
		if err != nil {
			return nil, err
		}
		if cqs[i], err = d.CreateCQ(4*lossMessages, nil); err != nil {
			return nil, err
		}
		if mrs[i], err = pd.RegisterMR(make([]byte, n), verbs.AccessAll, nil); err != nil {
			return nil, err
		}
		if qps[i], err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cqs[i], Caps: verbs.QPCaps{
			MaxSendWR: 2 * lossMessages, MaxRecvWR: 2 * lossMessages,
		}}); err != nil {
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
	h.wr = verbs.SendWR{Opcode: s.Op, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mrs[0].SGE(0, n)}}
	if s.Op != verbs.WRSend {
		h.wr.RemoteAddr, h.wr.RKey = mrs[1].Addr(), mrs[1].RKey()
		return h, nil
	}
	h.to, h.takes, h.recv = qps[1], cqs[1], verbs.RecvWR{SGList: []verbs.SGE{mrs[1].SGE(0, n)}}
	for range 2 * lossMessages {
		if err := h.to.PostRecv(&h.recv); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// lossMessages are queued: more than the largest window.
const lossMessages = 1024
