package lesson

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/transport"
)

const (
	rateGbps   = 10
	rateKiB    = 256             // that A writes
	packetBits = (1024 + 82) * 8 // on the cable, about
)

// remains is the lesson on what loss leaves of the rate.
func remains() lesson {
	return lesson{
		name: "rate", title: "What is left of the rate: going back beside selective repeat",
		after: []string{"selective"}, selective: true,
		text: `One lost packet in a hundred sounds like one percent of the rate. With selective repeat it is. A requester that goes back sends again all that is under way, and that is what the network holds in a round trip: W packets. With a share p lost, (1-p)/((1-p)+pW) of the rate is left, and 1-p with selective repeat. Here A writes 256 KiB over a link of 10 Gb/s on which packets are lost at random.`,
		params: []param{
			{name: "repeat", def: 1, min: 0, max: 1, help: "1: selective repeat; 0: A goes back"},
			{name: "lost", def: 10, min: 5, max: 50, help: "packets of 1000 that are lost, on average"},
			{name: "delay", def: 10, min: 1, max: 50,
				help: "microseconds from a host to the switch, and from there to the other host"},
			{name: "seed", def: 2, min: 1, max: 1000, help: "which ones are lost"},
		},
		cfg: func(v values) stage.Config {
			c := stage.Config{}
			c.Sim.Up = sim.Pipe{BitsPerSecond: rateGbps * 1e9, Latency: time.Duration(v["delay"]) * time.Microsecond}
			c.Sim.Down = c.Sim.Up
			for i := range c.Tuning {
				c.Tuning[i] = transport.Tuning{GoBackN: v["repeat"] != 1}
			}
			return c
		},
		warm: true, play: playRate,
		questions: []question{
			{"How many packets will A send again, and how many if it repeats the other way?", func(r *run) string {
				other, err := r.l.perform(values{"repeat": 1 - r.v["repeat"], "lost": r.v["lost"],
					"delay": r.v["delay"], "seed": r.v["seed"]})
				if err != nil {
					return err.Error()
				}
				return fmt.Sprintf("%d in %.0f us here, and %d in %.0f us with repeat=%d. Going back counts all packets behind each loss, of which about %d are under way; selective repeat counts the losses.",
					r.again()-r.before, float64(r.tookNs)/1000, other.again()-other.before,
					float64(other.tookNs)/1000, other.v["repeat"], underWay(r.v))
			}},
			{"What does a longer way do to each of them?", func(r *run) string {
				p := float64(r.v["lost"]) / 1000
				w := float64(underWay(r.v))
				return fmt.Sprintf("W grows with it. With %.1f %% lost and W = %.0f, the formulas leave %.0f %% of the rate to going back and %.0f %% to selective repeat; with ten times the way it would be %.0f %% and %.0f %%. A transfer as short as this one also waits a round trip for its last repeats.",
					100*p, w, 100*(1-p)/(1-p+p*w), 100*(1-p), 100*(1-p)/(1-p+10*p*w), 100*(1-p))
			}},
			{"Does the responder know what it may keep?",
				says("It keeps as much as its memory for that allows, and no packet further ahead than the window that peers may have. What it does not keep, the requester sends again, as if it had been lost.")},
		},
		tries: []string{"repeat=0", "delay=40 repeat=0", "delay=40", "lost=50"},
	}
}

// underWay is how many packets are under way in a round trip: two links there, and two back.
func underWay(v values) int {
	return max(1, 4*v["delay"]*1000*rateGbps/packetBits)
}

// playRate writes while packets are lost.
func playRate(r *run) error {
	// The ends learn from the first loss whether both can repeat selectively.
	r.lose(0, first)
	if err := r.do(r.s.Write(0, 4096)); err != nil {
		return err
	}
	r.before = r.again()
	r.said = nil
	rule := r.s.Hosts[0].Faults.Add(fault.Rule{Dir: fault.Send, Action: fault.Drop,
		Probability: float64(r.v["lost"]) / 1000, Seed: uint64(r.v["seed"])})
	err := r.do(r.s.Write(0, rateKiB<<10))
	bits := float64(packets(rateKiB<<10, ib.MTU1024) * packetBits)
	r.say("Of %d packets, and those sent again, %d were lost. A has sent %d again. The WRITE took %.0f us, and would take %.0f us if nothing were lost: %.0f %% of the rate are left.",
		packets(rateKiB<<10, ib.MTU1024), r.s.Hosts[0].Faults.Hits(rule), r.again()-r.before,
		float64(r.tookNs)/1000, whole(r.v, bits)/1000, 100*whole(r.v, bits)/float64(r.tookNs))
	return err
}

// whole is how long so many bits take to be there, and the acknowledgement to be back.
func whole(v values, bits float64) float64 { return bits/rateGbps + float64(4*v["delay"]*1000) }
