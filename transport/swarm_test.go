package transport_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/internal/seeds"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// TestSwarm runs random work over a bad wire, drawn from a seed: first a phase in which packets are
// lost, doubled, delayed and reordered, then one without faults in which all work must end. The
// oracle is a model of its own (swarm_model_test.go): every byte is right, every completion comes
// exactly once and in order, no QP is stuck.
//
// A failure prints its seed: go test -run 'TestSwarm$' -seed N
func TestSwarm(t *testing.T) {
	var sum transport.Counters
	var inRuns uint64
	n := seeds.Run(t, seeds.Fewer(150), func(t *testing.T, seed uint64) {
		for _, e := range runSwarm(t, seed, nil).p.ends {
			addCounters(&sum, e.eng.Counters())
			inRuns += e.eng.PacketsInRuns()
		}
	})
	t.Logf("%+v", sum)
	if n < 20 {
		return
	}
	// A swarm in which nothing goes wrong shows nothing.
	for name, v := range map[string]uint64{
		"duplicate_request": sum.DuplicateRequest, "out_of_seq_request": sum.OutOfSeqRequest,
		"rcvd_rnr_err": sum.RcvdRNRErr, "send_rnr_err": sum.SendRNRErr, "rcvd_seq_err": sum.RcvdSeqErr,
		"completer_retry_err": sum.CompleterRetryErr, "retransmitted": sum.RetransmittedPkts,
		"timeouts": sum.Timeouts, "loss probes": sum.LossProbes, "implied NAKs": sum.ImpliedNAKs,
		"sequence NAKs": sum.SentSeqNAKs, "coalesced ACKs": sum.CoalescedAcks,
		"CE marks":          sum.CEMarkedPkts,
		"rate cuts":         sum.RateCuts,
		"pacing holds":      sum.PacingHolds,
		"selective repeats": sum.SelectiveRepeats,
		"packets kept":      sum.KeptAhead,
		"of these in turn":  sum.KeptInTurn,
		"stale responses":   sum.DropBadResponse,
		"packets in runs":   inRuns,
	} {
		if v == 0 {
			t.Errorf("no %s in %d seeds", name, n)
		}
	}
}

// addCounters adds b to a, field by field.
func addCounters(a *transport.Counters, b transport.Counters) {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b)
	for i := range x.NumField() {
		x.Field(i).SetUint(x.Field(i).Uint() + y.Field(i).Uint())
	}
}

// swarmOptions are what a seed draws.
type swarmOptions struct {
	links      int
	mtu        ib.MTU
	loss, dup  float64
	jitter     int64 // most extra delay, ns: reorders if above the spacing
	delay      int64
	blackout   float64 // chance of a silence at any packet
	ops        int     // per direction and link
	maxLen     int
	v6         bool
	srq        bool
	window     int
	poison     bool // end with a request that fails
	lateRecv   bool // receives are posted too late: RNR
	timeout    ib.TimeoutCode
	rnrTimer   ib.RNRCode
	rdAtomic   uint8
	tuning     [2]transport.Tuning
	psn        [2]ib.PSN
	sigPercent int
	sqd        bool // send queues are drained and resumed now and then
	holdPct    int  // chance that the engines may not send yet after a packet
	txBatch    int  // descriptors of one PollTransmit
	markPct    int  // chance that a packet with ECT is marked CE
	awayPct    int  // chance, at a packet, that an end falls behind
	room       [2]transport.Room
	gso        [2]bool
	together   int64 // longest time that packets wait for others, ns; 0 for not at all
}

func drawSwarm(rng *rand.Rand) swarmOptions {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	o := swarmOptions{
		links: 1 + rng.IntN(3), mtu: ib.MTU(1 + rng.IntN(4)),
		delay: 100 + rng.Int64N(20*us), ops: 5 + rng.IntN(60), maxLen: 1 << (4 + rng.IntN(10)),
		v6: chance(30), srq: chance(30), window: []int{0, 1, 2, 5, 17, 64, 200}[rng.IntN(7)],
		poison: chance(25), lateRecv: chance(40),
		timeout: ib.TimeoutCode(7 + rng.IntN(4)), rnrTimer: ib.RNRCode(1 + rng.IntN(13)),
		rdAtomic: uint8(1 + rng.IntN(8)), sigPercent: []int{0, 10, 50, 100}[rng.IntN(4)],
	}
	if chance(80) {
		o.loss = rng.Float64() * 0.15
	}
	if chance(50) {
		o.dup = rng.Float64() * 0.1
	}
	if chance(60) {
		o.jitter = rng.Int64N(40 * us)
	}
	if chance(30) {
		o.blackout = 0.002
	}
	if chance(50) {
		o.holdPct = rng.IntN(90)
	}
	o.sqd = chance(25)
	o.txBatch = 1 + rng.IntN(32)
	for i := range o.tuning {
		o.tuning[i] = transport.Tuning{
			AckReqInterval: rng.IntN(20), DisableAckCoalesce: chance(30), EndToEndCredits: chance(30),
		}
		o.psn[i] = ib.PSN(rng.Uint32() & ib.PSNMask)
		if chance(50) {
			o.psn[i] = ib.PSN(ib.PSNMask - rng.Uint32N(20))
		}
	}
	return o
}

// drawProbes lets engines send loss probes after the default, never, or so soon that
// many are for nothing. The longest timeouts leave room for the default.
func (o *swarmOptions) drawProbes(rng *rand.Rand) {
	for i := range o.tuning {
		o.tuning[i].LossProbe = []time.Duration{0, -1, 20 * us, 50 * us, 200 * us, 500 * us}[rng.IntN(6)]
	}
}

// drawRepeat lets both ends, or one of them, repeat selectively.
func (o *swarmOptions) drawRepeat(rng *rand.Rand) {
	k := rng.IntN(8)
	o.tuning[0].GoBackN = k&1 == 0 && k <= 3
	o.tuning[1].GoBackN = k&2 == 0 && k <= 3
}

// drawCongestion lets engines have congestion control, and something to react to. The least rate is
// such that a responder at it is not too slow for the shortest timeout.
func (o *swarmOptions) drawCongestion(rng *rand.Rand) {
	if rng.IntN(100) < 50 {
		return
	}
	o.markPct = []int{0, 2, 30, 100}[rng.IntN(4)]
	for i := range o.tuning {
		c := cc.Config{
			Algorithm: cc.Algorithm(rng.IntN(4)), Target: 50 * time.Microsecond, CutOnNAK: rng.IntN(2) == 0,
			Capped: rng.IntN(2) == 0, Burst: []time.Duration{-1, 0, 2 * us}[rng.IntN(3)],
		}
		p := cc.Paper()
		if c.Algorithm == cc.DCQCNMellanox {
			p = cc.Mellanox()
		}
		p.MinRate, c.Profile = cc.Gbps, &p
		if rng.IntN(2) == 0 {
			c.StartRate = 2 * cc.Gbps
		}
		o.tuning[i].Congestion = c
		o.tuning[i].CNPGap = []time.Duration{0, -1, 4 * us}[rng.IntN(3)]
	}
}

// swarmCQEs is room for what can complete between two looks: less than what is posted at any time.
const swarmCQEs = 256

// drawRoom lets engines know how much there is room for: a packet or two, or many.
func (o *swarmOptions) drawRoom(rng *rand.Rand) {
	for i := range o.room {
		if rng.IntN(100) < 50 {
			continue
		}
		o.room[i] = transport.Room{Size: 1 << (8 + rng.IntN(10)), PerPacket: 1 + rng.IntN(800), PerByte: rng.IntN(3)}
		if rng.IntN(2) == 0 {
			o.room[i].RunPerPacket, o.room[i].RunPerByte = 1, 1
		}
	}
}

// drawRuns lets packets of an end come in runs, and connections be so deep that READs are
// made of several.
func (o *swarmOptions) drawRuns(rng *rand.Rand) {
	for i := range o.gso {
		o.gso[i] = rng.IntN(2) == 0
	}
	if rng.IntN(2) == 0 {
		o.rdAtomic = uint8(8 + rng.IntN(100))
	}
}

// drawTogether lets packets be handled in batches, so that there are runs among them, cut anywhere.
func (o *swarmOptions) drawTogether(rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		o.together = 1 + rng.Int64N(50*us)
	}
}

// drawAway lets ends fall behind now and then, for up to two ACK timeouts: packets
// wait in front of them while the clock goes on, and their own timers come due.
func (o *swarmOptions) drawAway(rng *rand.Rand) {
	if rng.IntN(100) < 40 {
		o.awayPct = 1 + rng.IntN(10)
	}
}

// runSwarm runs one seed; canary, if set, damages the run in a way that the oracle must notice.
func runSwarm(t testing.TB, seed uint64, canary func(*swarm)) *swarm {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	o := drawSwarm(rng)
	marks := rand.New(rand.NewPCG(seed, 0xcc)) // of its own, so that old seeds stay what they were
	o.drawCongestion(marks)
	away := rand.New(rand.NewPCG(seed, 0xa3a7))
	o.drawAway(away)
	o.drawRoom(away)
	o.drawRuns(rand.New(rand.NewPCG(seed, 0x650)))
	o.drawRepeat(rand.New(rand.NewPCG(seed, 0x5e1ec7)))
	o.drawProbes(rand.New(rand.NewPCG(seed, 0x7a11)))
	batches := rand.New(rand.NewPCG(seed, 0x2045))
	o.drawTogether(batches)
	t.Logf("seed %d: %+v", seed, o)
	p := newPair(t, pairConfig{mtu: ib.MTU4096, tuning: o.tuning, v6: o.v6, seed: seed, room: o.room,
		gso: o.gso, cqe: swarmCQEs, bytes: o.links * flowBytes})
	p.logging = seeds.One() // then a failure shows the last packets
	p.delay = o.delay
	p.batch = make([]transport.TxPacket, o.txBatch)
	if o.holdPct > 0 {
		p.hold = func() bool { return rng.IntN(100) < o.holdPct }
	}
	if o.together > 0 {
		p.together = func() int64 { return batches.Int64N(o.together) }
	}
	s := &swarm{t: t, p: p, o: o, rng: rng, marks: marks, away: away}
	if o.holdPct == 0 && !o.poison && o.together == 0 && o.tuning[0].GoBackN && o.tuning[1].GoBackN {
		// A trace shows cause and effect only if the engine answers each packet
		// before the next one comes. It knows going back only.
		watch(t, p, transport.DefaultSeqNAKRearmNs)
	}
	s.setup()
	if canary != nil {
		canary(s)
	}
	s.faults = true
	for s.left() > 0 {
		s.act()
		for range rng.IntN(12) {
			if !p.step(p.now + second) {
				break
			}
			s.check()
		}
	}
	// Liveness: no more faults, and every receive that is wanted is posted.
	s.faults = false
	limit := p.now + 100*second
	for !s.done() {
		s.postWantedRecvs()
		if !p.step(limit) && !s.done() {
			t.Fatalf("stuck at %d ns: %s", p.now, s.state())
		}
		s.check()
	}
	p.advance(20 * second) // nothing may come late
	s.check()
	s.finish()
	if p.watcher != nil {
		p.watcher.counters()
	}
	return s
}

// swarm is one run.
type swarm struct {
	t        testing.TB
	p        *pair
	o        swarmOptions
	rng      *rand.Rand
	marks    *rand.Rand
	away     *rand.Rand
	flows    []*flow // one for each direction of each link
	faults   bool
	nextAway int64 // no end falls behind before this time
	silent   int64 // no packet passes before this time
	lossy    int   // statistics: faults made
}

func (s *swarm) setup() {
	for k := range s.o.links {
		lc := linkConfig{attr: func(l *link, a *transport.QPAttr) {
			a.PathMTU = s.o.mtu
			a.SQPSN, a.RQPSN = s.o.psn[l.i], s.o.psn[1-l.i]
			a.Timeout, a.MinRNRTimer, a.MaxUnackedPackets = s.o.timeout, s.o.rnrTimer, s.o.window
			a.MaxRdAtomic, a.MaxDestRdAtomic = s.o.rdAtomic, s.o.rdAtomic
		}}
		lc.caps = transport.QPCaps{MaxSendWR: 32, MaxRecvWR: flowRecvs, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 128}
		for i, e := range s.p.ends {
			cq, err := e.eng.CreateCQ(swarmCQEs, nil)
			s.must(err)
			lc.cq[i] = cq
			if s.o.srq {
				lc.srq[i], err = e.eng.CreateSRQ(e.pd, transport.SRQAttr{MaxWR: flowRecvs, MaxSGE: 4}, nil)
				s.must(err)
			}
		}
		a, b := s.p.connect(lc)
		x, y := newFlow(s, k, a, b, lc.cq[0], lc.srq[0]), newFlow(s, k, b, a, lc.cq[1], lc.srq[1])
		x.back, y.back = y, x
		s.flows = append(s.flows, x, y)
	}
	if s.o.poison {
		s.flows[s.rng.IntN(len(s.flows))].poisonAt = s.o.ops - 1 - s.rng.IntN(s.o.ops/2+1)
	}
	s.p.onSend = s.fault
}

// fault decides what becomes of a packet. No packet is lost more than twice,
// so that retry_cnt 7 suffices whatever the seed.
func (s *swarm) fault(f *flight) {
	if !s.faults {
		return
	}
	if f.rx.TrafficClass&transport.ECNMask == transport.ECT0 && s.marks.IntN(100) < s.o.markPct {
		f.rx.TrafficClass |= transport.ECNCE
	}
	if s.away.IntN(100) < s.o.awayPct {
		s.fallBehind(s.p.ends[s.away.IntN(2)])
	}
	if s.o.jitter > 0 {
		f.at += s.rng.Int64N(s.o.jitter)
	}
	if s.rng.Float64() < s.o.blackout && s.p.now > s.silent+20*ib.TimeoutCode(s.o.timeout).Ns() {
		s.silent = s.p.now + s.rng.Int64N(s.o.timeout.Ns())
	}
	switch {
	case s.p.now < s.silent, f.nth < 2 && s.rng.Float64() < s.o.loss:
		f.lost = true
		s.lossy++
	case s.rng.Float64() < s.o.dup:
		f.copies = 1 + s.rng.IntN(2)
		s.lossy++
	}
}

// fallBehind keeps an end from handling anything for a while. Its peer may run into
// a timeout or two; it has time to recover before the next.
func (s *swarm) fallBehind(e *end) {
	timeout := s.o.timeout.Ns()
	if s.p.now < s.nextAway {
		return
	}
	e.awayTo = s.p.now + s.away.Int64N(2*timeout)
	s.nextAway = e.awayTo + 20*timeout
}

// act posts something somewhere.
func (s *swarm) act() {
	f := s.flows[s.rng.IntN(len(s.flows))]
	if f.posted < s.o.ops {
		f.postOne()
	}
	if s.o.sqd && s.rng.IntN(4) == 0 {
		f.toggleSQD()
	}
	if !s.o.lateRecv || s.rng.IntN(4) == 0 {
		f.postRecvs(1 + s.rng.IntN(4))
	}
}

// left returns how many work requests are still to be posted.
func (s *swarm) left() (n int) {
	for _, f := range s.flows {
		if !f.broken() {
			n += s.o.ops - f.posted
		}
	}
	return n
}

func (s *swarm) postWantedRecvs() {
	for _, f := range s.flows {
		if f.src.qp.State() == transport.StateSQD {
			f.toggleSQD()
		}
		f.postRecvs(flowRecvs)
	}
}

func (s *swarm) done() bool {
	for _, f := range s.flows {
		if !f.done() {
			return false
		}
	}
	return true
}

func (s *swarm) check() {
	for _, f := range s.flows {
		f.poll()
	}
}

func (s *swarm) finish() {
	for _, f := range s.flows {
		f.finish()
	}
	for _, e := range s.p.ends {
		c := e.eng.Counters()
		if c.RetryExceededErr+c.RetryRNRExceededErr != 0 && !s.o.poison {
			s.t.Fatalf("%s gave up: %+v", e.name, c)
		}
		if c.DropMalformed+c.DropOpcode+c.DropNoQP+c.DropQPType+c.DropAddress+c.DropPKey != 0 {
			s.t.Fatalf("%s dropped what its peer sent: %+v", e.name, c)
		}
	}
}

func (s *swarm) state() string {
	str := ""
	for _, f := range s.flows {
		str += fmt.Sprintf("\n%s link %d: %v, posted %d, completed %d of %d signaled; peer received %d of %d",
			f.src.name, f.k, f.src.qp.State(), f.posted, f.completed, len(f.expect), f.received, len(f.messages))
	}
	for _, e := range s.p.ends {
		str += fmt.Sprintf("\n%s: %+v", e.name, e.eng.Counters())
	}
	return str
}

func (s *swarm) must(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatal(err)
	}
}

// The oracle is worth nothing if it cannot fail: each canary breaks one thing
// that no ICRC would show.
func TestSwarmCanaries(t *testing.T) {
	for name, canary := range map[string]func(*swarm){
		"payload byte changed": func(s *swarm) {
			s.onFirst(func(f *flight) bool {
				if len(f.pkt.Payload) > 8 {
					f.data[f.pkt.HeaderLen] ^= 1
					return true
				}
				return false
			})
		},
		"memory of the responder changed": func(s *swarm) {
			f := s.flows[0]
			f.dst.buf[f.area(areaTarget)] ^= 1
		},
		"atomic executed twice": func(s *swarm) {
			s.onFirst(func(f *flight) bool {
				if f.pkt.Opcode == ib.RCAtomicAck {
					for _, fl := range s.flows {
						if fl.src.end != f.from {
							w := fl.dst.buf[fl.area(areaAtomic):]
							binary.NativeEndian.PutUint64(w, binary.NativeEndian.Uint64(w)+1)
						}
					}
					return true
				}
				return false
			})
		},
		"immediate changed": func(s *swarm) {
			s.onFirst(func(f *flight) bool {
				if f.pkt.Opcode.Has(ib.HasImmDt) {
					f.data[f.pkt.HeaderLen-1] ^= 1
				}
				return false // every one: many are refused with RNR
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			caught := 0
			for seed := uint64(1); seed <= 10; seed++ {
				r := &recorder{TB: t}
				func() {
					defer func() {
						if e := recover(); e != nil && e != errRecorded {
							panic(e)
						}
					}()
					runSwarm(r, seed, canary)
				}()
				if r.failed {
					caught++
				}
			}
			if caught < 5 {
				t.Fatalf("the oracle caught it in %d of 10 runs", caught)
			}
		})
	}
}

// onFirst applies change to packets until it returns true.
func (s *swarm) onFirst(change func(*flight) bool) {
	done := false
	old := s.p.onSend
	s.p.onSend = func(f *flight) {
		old(f)
		if !done && !f.lost {
			done = change(f)
		}
	}
}

// recorder is a testing.TB whose test may fail without failing the real one.
type recorder struct {
	testing.TB
	failed bool
}

var errRecorded = fmt.Errorf("test failed as it should")

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) FailNow()              { r.failed = true; panic(errRecorded) }
func (r *recorder) Fatal(...any)          { r.FailNow() }
func (r *recorder) Fatalf(string, ...any) { r.FailNow() }
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Cleanup(func())        {}
