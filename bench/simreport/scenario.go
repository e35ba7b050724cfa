package simreport

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// Units of time, in nanoseconds.
const (
	Microsecond = int64(1e3)
	Millisecond = int64(1e6)
)

// The network of all experiments: what the DCQCN paper has, as far as it says.
const (
	LineRate = 40 * cc.Gbps
	// propagationNs is that of one cable.
	propagationNs = 1 * Microsecond
	// BufferBytes is the shared buffer of the switch (12 MB, as that of a
	// Trident II); a port may have half of what is free.
	BufferBytes = 12 << 20
	bufferShare = 1
	pathMTU     = ib.MTU1024
	// Messages are WRITEs of messageBytes, always messagesQueued of them posted.
	messageBytes   = 16 << 10
	messagesQueued = 64
	// wireBytes is a packet in the middle of a message on the cable.
	wireBytes = 1024 + ib.BTHBytes + ib.ICRCBytes + ib.UDPHeaderBytes + ib.IPv4HeaderBytes + 8 + 14 + 4 + 12
	// windowPackets is how much a flow may have outstanding: 256 KiB.
	windowPackets = 256
)

// payloadGbps is what the port carries of payload, in Gb/s.
var payloadGbps = LineRate.Gbit() * 1024 / wireBytes

// PaperRED is the marking of the DCQCN paper at 40 Gb/s.
var PaperRED = sim.RED{KminBytes: 5e3, KmaxBytes: 200e3, Pmax: 0.01}

// Flow is one sender.
type Flow struct {
	StartNs int64
	StopNs  int64   // no message is posted from then on; 0: never
	Rate    cc.Rate // that the flow begins with; 0 is without limit
}

// Scenario is one incast.
type Scenario struct {
	Name  string
	Flows []Flow
	CC    cc.Config // LineRate, StartRate and Burst are set by Run
	CNPNs int64     // gap between CNPs
	RED   sim.RED   // zero: the switch does not mark
	// MarkArriving marks by the queue that a packet finds; otherwise by the one that it
	// leaves behind.
	MarkArriving bool
	// Buffer of the switch; 0 is BufferBytes.
	Buffer int
	// BatchNs is how much sending time a sender hands over at a time; 0 is a packet.
	BatchNs int64
	// Paths names, for each flow, the cables between switches on the way to the receiver, by
	// number; flows that name the same share it. The way back takes as many, which
	// are of one flow each. nil: all hosts are on one switch.
	Paths [][]int

	DurationNs int64
	WarmupNs   int64 // figures are of what is after it
	SampleNs   int64
	Seed       uint64
}

// Incast returns k flows that start together.
func Incast(k int) []Flow { return make([]Flow, k) }

// Sample is the state at one moment.
type Sample struct {
	AtNs       int64
	QueueBytes int
	Allowed    []float64 // Gb/s, per flow: line rate if it is not limited, 0 if it does not run
	Delivered  []int64   // bytes of completed messages so far
}

// Result is what a run showed. Except for the samples it is about the time after the warm-up.
type Result struct {
	Scenario    *Scenario
	Utilization float64 // of the port to the receiver
	Goodput     []float64
	Total       float64 // goodput of all, Gb/s
	Jain        float64
	Queue       sim.QueueStats
	Marked      uint64
	CNPs        uint64 // sent by the receiver, whole run
	Cuts        uint64 // by the senders, whole run
	Dropped     uint64 // by the switch, whole run
	Resent      uint64 // packets, whole run
	Timeouts    uint64
	Packets     uint64 // carried by the fabric
	Samples     []Sample
}

// Jain is Jain's index of fairness: 1 if all are equal, 1/n if one has all.
func Jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(x)) * squares)
}

// sender is a host with one flow.
type sender struct {
	flow      *Flow
	dev       *verbs.Device
	cq        *verbs.CQ
	qp        *verbs.QP
	wr        verbs.SendWR
	posted    int
	queue     int       // messages; 0 is messagesQueued
	to        *verbs.QP // takes them, if they are SENDs
	takes     *verbs.CQ // of that
	recv      verbs.RecvWR
	delivered int64
}

// rig is a scenario in the making.
type rig struct {
	s        *Scenario
	fabric   *sim.Fabric
	receiver *verbs.Device
	port     *sim.Link
	senders  []*sender
}

func hostAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// Run plays a scenario.
func Run(s *Scenario) (*Result, error) {
	r := &rig{s: s}
	defer r.close()
	if err := r.build(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	res := &Result{Scenario: s}
	if err := r.play(res); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return res, nil
}

func (r *rig) build() error {
	s := r.s
	pipe := sim.Pipe{BitsPerSecond: int64(LineRate), Latency: time.Duration(propagationNs)}
	down := pipe
	if s.RED != (sim.RED{}) {
		down.Mark, down.MarkDeparting = s.RED.Mark, !s.MarkArriving
	}
	buffer := s.Buffer
	if buffer == 0 {
		buffer = BufferBytes
	}
	r.fabric = sim.New(sim.Config{
		Seed: s.Seed, Up: pipe, Down: down, MTU: pathMTU, BufferBytes: buffer, BufferShare: bufferShare,
	})
	var err error
	if r.port, err = r.fabric.Link(hostAddr(0)); err != nil {
		return err
	}
	if r.receiver, err = r.open(r.port, transport.Tuning{CNPGap: time.Duration(s.CNPNs)}); err != nil {
		return err
	}
	pd, err := r.receiver.AllocPD()
	if err != nil {
		return err
	}
	cq, err := r.receiver.CreateCQ(16, nil)
	if err != nil {
		return err
	}
	mr, err := pd.RegisterMR(make([]byte, messageBytes), verbs.AccessAll, nil)
	if err != nil {
		return err
	}
	trunks := map[int]*sim.Trunk{}
	for i := range s.Flows {
		if err := r.addSender(i, pd, cq, mr); err != nil {
			return err
		}
		if s.Paths != nil {
			r.route(i, down, trunks)
		}
	}
	return nil
}

// route leads a flow over its path.
func (r *rig) route(flow int, p sim.Pipe, trunks map[int]*sim.Trunk) {
	var there, back []*sim.Trunk
	for _, n := range r.s.Paths[flow] {
		if trunks[n] == nil {
			trunks[n] = r.fabric.NewTrunk(p)
		}
		there, back = append(there, trunks[n]), append(back, r.fabric.NewTrunk(p))
	}
	r.fabric.Route(hostAddr(flow+1), hostAddr(0), there...)
	r.fabric.Route(hostAddr(0), hostAddr(flow+1), back...)
}

func (r *rig) open(l *sim.Link, t transport.Tuning) (*verbs.Device, error) {
	return verbs.Open(verbs.Config{Link: l, Rand: r.fabric.Rand(), Tuning: t})
}

// addSender makes a host with a connection to the receiver.
func (r *rig) addSender(i int, pd *verbs.PD, cq *verbs.CQ, mr *verbs.MR) error {
	s := r.s
	flow := &s.Flows[i]
	l, err := r.fabric.Link(hostAddr(i + 1))
	if err != nil {
		return err
	}
	conf := s.CC
	conf.LineRate, conf.StartRate, conf.Burst, conf.Capped = LineRate, flow.Rate,
		time.Duration(cmp.Or(s.BatchNs, -1)), true
	dev, err := r.open(l, transport.Tuning{Congestion: conf, MaxUnackedPackets: windowPackets})
	if err != nil {
		return err
	}
	h := &sender{flow: flow, dev: dev}
	r.senders = append(r.senders, h)
	own, err := dev.AllocPD()
	if err != nil {
		return err
	}
	if h.cq, err = dev.CreateCQ(2*messagesQueued, nil); err != nil {
		return err
	}
	local, err := own.RegisterMR(make([]byte, messageBytes), verbs.AccessAll, nil)
	if err != nil {
		return err
	}
	caps := verbs.QPCaps{MaxSendWR: 2 * messagesQueued, MaxRecvWR: 1}
	if h.qp, err = own.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: h.cq, Caps: caps}); err != nil {
		return err
	}
	peer, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, Caps: caps})
	if err != nil {
		return err
	}
	attr := verbs.DefaultConnAttr()
	attr.MTU = pathMTU
	if err := peer.Connect(h.qp.LocalInfo(0), &attr); err != nil {
		return err
	}
	if err := h.qp.Connect(peer.LocalInfo(0), &attr); err != nil {
		return err
	}
	h.wr = verbs.SendWR{
		Opcode: verbs.WRWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{local.SGE(0, messageBytes)},
		RemoteAddr: mr.Addr(), RKey: mr.RKey(),
	}
	return nil
}

func (r *rig) close() {
	for _, h := range r.senders {
		_ = h.dev.Close()
	}
	if r.receiver != nil {
		_ = r.receiver.Close()
	}
}

// runs reports whether the flow posts messages at now.
func (f *Flow) runs(now int64) bool {
	return now >= f.StartNs && (f.StopNs == 0 || now < f.StopNs)
}

// work takes completions and posts messages.
func (h *sender) work(now int64) error {
	var wcs [32]verbs.WC
	for {
		n, err := h.cq.Poll(wcs[:])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		for i := range wcs[:n] {
			if err := verbs.WCError(&wcs[i]); err != nil {
				return err
			}
		}
		h.posted -= n
		h.delivered += int64(n) * int64(h.wr.SGList[0].Length)
	}
	if h.to != nil {
		if err := h.take(); err != nil {
			return err
		}
	}
	if !h.flow.runs(now) {
		return nil
	}
	for ; h.posted < cmp.Or(h.queue, messagesQueued); h.posted++ {
		if err := h.qp.PostSend(&h.wr); err != nil {
			return err
		}
	}
	return nil
}

// take replaces the receives that were used up.
func (h *sender) take() error {
	var wcs [32]verbs.WC
	for {
		n, err := h.takes.Poll(wcs[:])
		if n == 0 || err != nil {
			return err
		}
		for i := range wcs[:n] {
			if err := verbs.WCError(&wcs[i]); err != nil {
				return err
			}
			if err := h.to.PostRecv(&h.recv); err != nil {
				return err
			}
		}
	}
}

// sample appends the state of now.
func (r *rig) sample(res *Result, now int64) {
	_, q := r.port.Queued()
	p := Sample{AtNs: now, QueueBytes: q}
	for _, h := range r.senders {
		allowed := 0.0
		if h.flow.runs(now) {
			allowed = LineRate.Gbit()
			if st, ok := h.qp.Congestion(); ok && st.Limiting {
				allowed = st.Current.Gbit()
			}
		}
		p.Allowed = append(p.Allowed, allowed)
		p.Delivered = append(p.Delivered, h.delivered)
	}
	res.Samples = append(res.Samples, p)
}

// play lets the time of the scenario pass.
func (r *rig) play(res *Result) error {
	s := r.s
	before := make([]int64, len(r.senders))
	warm := false
	for now := int64(0); ; now = r.fabric.Now() {
		if !warm && now >= s.WarmupNs {
			warm = true
			r.port.ResetQueues()
			for i, h := range r.senders {
				before[i] = h.delivered
			}
		}
		for _, h := range r.senders {
			if err := h.work(now); err != nil {
				return err
			}
		}
		r.sample(res, now)
		if now >= s.DurationNs {
			break
		}
		r.fabric.RunFor(time.Duration(s.SampleNs))
	}
	span := float64(s.DurationNs - s.WarmupNs)
	for i, h := range r.senders {
		res.Goodput = append(res.Goodput, float64(h.delivered-before[i])*8/span)
		res.Total += res.Goodput[i]
		c := h.dev.Counters()
		res.Cuts += c.RateCuts
		res.Resent += c.RetransmittedPkts
		res.Timeouts += c.Timeouts
	}
	_, res.Queue = r.port.QueueStats()
	res.Utilization = res.Queue.Utilization()
	res.Jain = Jain(res.Goodput)
	res.CNPs = r.receiver.Counters().CNPsSent
	st := r.fabric.Stats()
	res.Marked, res.Dropped, res.Packets = st.Marked, st.Overflowed, st.Sent
	return nil
}
