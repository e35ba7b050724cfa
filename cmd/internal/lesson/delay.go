package lesson

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport"
	"github.com/goroce/goroce/transport/cc"
)

// delayed is the lesson on control by round trips.
func delayed() lesson {
	return lesson{
		name: "delay", title: "A queue that nobody reports: control by round trips",
		after: []string{"congestion", "rate"}, chart: true, selective: true,
		text: `Most switches between two hosts mark nothing. But A sees the queue all the same: a packet that waits has its acknowledgement later. From round trips A learns two numbers: the shortest one, which is the way without a queue, and how many packets arrive in a round. Their product is what has to be under way so that the link never rests; what is more only waits. Here the last link to B is the slow one, its switch has room for 400 KiB, marks nothing, and drops what does not fit.`,
		params: []param{
			{name: "control", def: 1, min: 0, max: 1, help: "0: A has as much under way as its window admits"},
			{name: "rate", def: 4, min: 2, max: 20, help: "Gb/s of the last link"},
			{name: "target", def: 2, min: 1, max: 20,
				help: "how long packets may wait before A does anything about it, in 100 us",
				refuse: func(v values, given bool) string {
					if given && v["control"] == 0 {
						return "without control there is no target"
					}
					return ""
				}},
			{name: "kib", def: 2048, min: 512, max: 4096, help: "KiB that A writes"},
		},
		cfg:  slowLast,
		warm: true, play: playDelayed,
		questions: []question{
			{"Nobody marks and nobody tells. Does A lose packets nevertheless?", func(r *run) string {
				other, err := r.l.perform(values{"control": 1 - r.v["control"], "rate": r.v["rate"],
					"target": r.v["target"], "kib": r.v["kib"]})
				if err != nil {
					return err.Error()
				}
				return fmt.Sprintf("%d here, and %d with control=%d. The transfer takes %.1f ms here and %.1f ms there: the slow link is busy in both, and what waits before it makes nothing faster.",
					r.s.Net.Stats().Overflowed, other.s.Net.Stats().Overflowed, other.v["control"],
					float64(r.tookNs)/1e6, float64(other.tookNs)/1e6)
			}},
			{"Why is a lost packet no sign for it?",
				says("Some networks lose packets at random, and a control that slows down for each never fills them: TCP cubic has a quarter of a path that loses one in a hundred. If much is lost and round trips are long as well, a queue is full: that is a sign.")},
			{"What if another sender fills the same queue?",
				says("Then the shortest round trip that A sees has the other's packets in it, and A takes them for the way: it admits more. A control that made room for everybody who does not would end with nothing.")},
		},
		tries: []string{"control=0", "rate=10", "rate=10 control=0", "target=20"},
	}
}

// slowLast is a network whose last link to B is slow, and marks nothing.
func slowLast(v values) stage.Config {
	c := stage.Config{MTU: ib.MTU4096, Bytes: 8 << 20}
	c.Sim.Up = sim.Pipe{BitsPerSecond: lineGbps * 1e9, Latency: 10 * time.Microsecond}
	c.Sim.Down = sim.Pipe{BitsPerSecond: int64(v["rate"]) * 1e9, Latency: 10 * time.Microsecond,
		QueueBytes: queueKiB << 10}
	for i := range c.Tuning {
		c.Tuning[i] = transport.Tuning{}
		if v["control"] == 1 {
			c.Tuning[i].Congestion = cc.Config{Algorithm: cc.ByDelay, LineRate: lineGbps * cc.Gbps,
				Target: time.Duration(v["target"]) * 100 * time.Microsecond, Burst: -1}
		}
	}
	return c
}

// playDelayed writes over it.
func playDelayed(r *run) error {
	r.said = nil
	err := r.do(r.s.Write(0, r.v["kib"]<<10))
	peak := 0
	for _, s := range r.s.Hosts[1].States {
		peak = max(peak, s.PortBytes)
	}
	r.say("The queue was %d KiB at its longest: %.0f us of the slow link. It dropped %d packets; A sent %d again.",
		peak>>10, float64(peak*8)/1000/float64(r.v["rate"]), r.s.Net.Stats().Overflowed, r.again())
	return err
}
