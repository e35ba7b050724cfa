package lesson

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

func congestion() []lesson {
	return []lesson{{
		name: "congestion", title: "Marks, CNPs and the rate: DCQCN at a bottleneck",
		after: []string{"loss"}, chart: true,
		text: `Host A can send at 40 Gb/s, but the last link to host B is slower: as in an incast, a queue grows in the switch, which has room for 400 KiB. What does not fit is dropped, and A goes back for it. Long before, at 20 KB, the switch begins to mark packets (CE). B answers marks with congestion notifications, CNPs, and A cuts its rate, and raises it again when no more come. Without control A sees no sign before the first drop.`,
		params: []param{
			{name: "control", def: 1, min: 0, max: 1, help: "0: A does not slow down"},
			{name: "rate", def: 20, min: 5, max: 40, help: "Gb/s of the bottleneck"},
			{name: "kib", def: 2048, min: 64, max: 8192, help: "KiB that A writes"},
		},
		cfg:  func(v values) stage.Config { return bottleneck(v["rate"], v["control"] == 1) },
		play: playBottleneck,
		questions: []question{
			{"With control, does the WRITE take longer or shorter than without?", func(r *run) string {
				return fmt.Sprintf("Here it took %.0f us, and %d packets were dropped: compare with the other value of control. A drop is dear, since all behind it goes again; a rate that is cut too far is dear as well, when nothing would have been dropped.",
					float64(r.tookNs)/1000, r.s.Net.Stats().Overflowed)
			}},
			{"What would TCP have done without ECN?",
				says("Filled the queue until it dropped, and slowed down then. RDMA without congestion control does not even slow down.")},
			{"Why are CNPs sent at most every 50 us?",
				says("One cut is for all marks of that time: a sender that cut for each of them would stop.")},
		},
		tries: []string{"control=0", "rate=10", "rate=10 control=0"},
	}, delayed()}
}

// bottleneck is a network with a last link to B of so many Gb/s, and room for 400 KiB before it.
func bottleneck(gbps int, control bool) stage.Config {
	c := stage.Config{MTU: ib.MTU4096, Bytes: 8 << 20}
	c.Sim.Up = sim.Pipe{BitsPerSecond: lineGbps * 1e9, Latency: 1000}
	c.Sim.Down = sim.Pipe{BitsPerSecond: int64(gbps) * 1e9, Latency: 1000, QueueBytes: queueKiB << 10,
		Mark: sim.RED{KminBytes: 20_000, KmaxBytes: 200_000, Pmax: 0.2}.Mark}
	for i := range c.Tuning {
		c.Tuning[i] = transport.Tuning{LossProbe: -1}
		if control {
			c.Tuning[i].Congestion = cc.Config{Algorithm: cc.DCQCNPaper, LineRate: lineGbps * cc.Gbps,
				Capped: true, Burst: -1}
		}
	}
	c.Attr = func(_ int, a *verbs.ConnAttr) { a.TrafficClass = 2 } // ECT(0): may be marked
	return c
}

// playBottleneck writes over it.
func playBottleneck(r *run) error {
	err := r.do(r.s.Write(0, r.v["kib"]<<10))
	if st, ok := r.s.Hosts[0].QP.Congestion(); ok && st.Cuts > 0 {
		r.say("A has cut its rate %d times; it sends at %.1f Gb/s now.", st.Cuts, float64(st.Current)/float64(cc.Gbps))
	}
	peak := 0
	for _, s := range r.s.Hosts[1].States {
		peak = max(peak, s.PortBytes)
	}
	st := r.s.Net.Stats()
	r.say("The queue was %d KiB at its longest. The switch marked %d packets and dropped %d; A sent %d again.",
		peak>>10, st.Marked, st.Overflowed, r.again())
	return err
}
