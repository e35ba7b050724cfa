package simreport

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport/cc"
)

// Change is what happens to a Path that is in use.
type Change struct {
	AtNs      int64
	Rate      cc.Rate // from now on; 0 is the one before
	FartherNs int64   // from now on all round trips are longer than at first by that
	CutNs     int64   // so long nothing gets through
	StopNs    int64   // so long the process at the far end is stopped
}

// over is when the change has happened.
func (c *Change) over() int64 { return c.AtNs + c.CutNs + c.StopNs }

const (
	noteNs  = Millisecond
	afterNs = 250 * Millisecond // over which a rate is taken
)

// change has the changes happen.
func (r *pathRig) change() {
	rate := r.s.Rate
	for i := range r.s.Changes {
		c := &r.s.Changes[i]
		if c.Rate != 0 {
			rate = c.Rate
		}
		r.rates = append(r.rates, rate)
		p := r.pipe()
		p.BitsPerSecond, p.Latency = int64(rate), p.Latency+time.Duration(c.FartherNs)
		r.f.At(c.AtNs, func() {
			r.neck.Change(p)
			if c.StopNs > 0 {
				r.stop(c)
			}
		})
		if c.CutNs > 0 {
			r.f.At(c.AtNs, func() { r.cut(true) })
			r.f.At(c.over(), func() { r.cut(false) })
		}
	}
}

// cut has nothing get through, or all.
func (r *pathRig) cut(on bool) {
	for i, l := range r.hosts {
		for _, other := range r.hosts[:i] {
			r.f.Partition(other.Addrs()[0], l.Addrs()[0], on)
		}
	}
}

// stop stops the processes at the far ends.
func (r *pathRig) stop(c *Change) {
	far := r.hosts[:1]
	if r.s.Flows[0].Op == verbs.WRRead {
		far = r.hosts[1:]
	}
	for _, l := range far {
		l.stallUntil(c.over())
	}
}

// note keeps what has been delivered.
func (r *pathRig) note(now int64) {
	if len(r.s.Changes) == 0 || now < int64(len(r.had))*noteNs {
		return
	}
	n := int64(0)
	for _, h := range r.senders {
		n += h.delivered
	}
	if r.tcp != nil {
		n += r.tcp.delivered * tcpPayload
	}
	r.had = append(r.had, n)
}

// after returns how long after change i nine tenths of the rate were there, over afterNs; -1 if
// they were not before the next change.
func (r *pathRig) after(i int) int64 {
	const n = int(afterNs / noteNs)
	end := len(r.had)
	if i+1 < len(r.s.Changes) {
		end = min(end, int(r.s.Changes[i+1].AtNs/noteNs))
	}
	least := int64(r.rates[i]) / 8 * 1024 / wireBytes * afterNs / 1e9 * 9 / 10
	over := r.s.Changes[i].over()
	for at := int(over / noteNs); at+n < end; at++ {
		if r.had[at+n]-r.had[at] >= least {
			return int64(at)*noteNs - over
		}
	}
	return -1
}

// pipe is the bottleneck at first.
func (r *pathRig) pipe() sim.Pipe {
	p := sim.Pipe{BitsPerSecond: int64(r.s.Rate), QueueBytes: r.s.Queue * wireBytes, Latency: time.Microsecond}
	if r.s.RED != (sim.RED{}) {
		p.Mark, p.MarkDeparting = r.s.RED.Mark, true
	}
	return p
}

// changing is a path that changes, and how it is named.
type changing struct {
	name string
	Path
}

// changingPaths are played for seven seconds. Each changes at 2 s and, if it changes back, at 5 s.
func changingPaths() []changing {
	const at, back = 2000 * Millisecond, 5000 * Millisecond
	path := func(rate cc.Rate, rttNs int64, queue int, changes ...Change) Path {
		return Path{
			Rate: rate * cc.Mbps, Queue: queue, Changes: changes, Flows: flowsOf(1, cc.Config{}, rttNs*Millisecond),
			Runs: true, DurationNs: 7000 * Millisecond, Silence: 60_000 * Millisecond, Seed: 1,
		}
	}
	slower := func(low, high cc.Rate) []Change {
		return []Change{{AtNs: at, Rate: low * cc.Mbps}, {AtNs: back, Rate: high * cc.Mbps}}
	}
	farther := func(ms int64) []Change {
		return []Change{{AtNs: at, FartherNs: ms * Millisecond}, {AtNs: back}}
	}
	return []changing{
		{"200 to 20 to 200 Mb/s, 1 ms, queue 100", path(200, 1, 100, slower(20, 200)...)},
		{"200 to 20 to 200 Mb/s, 10 ms, queue 300", path(200, 10, 300, slower(20, 200)...)},
		{"1,000 to 50 to 1,000 Mb/s, 5 ms, queue 300", path(1000, 5, 300, slower(50, 1000)...)},
		{"1 to 10 to 1 ms, 200 Mb/s, queue 100", path(200, 1, 100, farther(9)...)},
		{"10 to 100 to 10 ms, 50 Mb/s, queue 400", path(50, 10, 400, farther(90)...)},
		{"nothing gets through for 0.3 s, 200 Mb/s, 1 ms, queue 100",
			path(200, 1, 100, Change{AtNs: at, CutNs: 300 * Millisecond})},
		{"the same for 3 s", path(200, 1, 100, Change{AtNs: at, CutNs: 3000 * Millisecond})},
		{"the same, 100 Mb/s, 40 ms, queue 400", path(100, 40, 400, Change{AtNs: at, CutNs: 3000 * Millisecond})},
		{"the peer is stopped for 3 s, 200 Mb/s, 1 ms, queue 100",
			path(200, 1, 100, Change{AtNs: at, StopNs: 3000 * Millisecond})},
	}
}

// changes is the section on paths that change.
func (c *controlPage) changes() {
	c.p(`
## A path that changes

One flow; packets leave in runs. How long after a change, or after its end, the flow has nine tenths of the rate of the path, over %d
ms; a dash where that does not happen before the next change. Then packets that were lost, and that were sent again, in all 7 seconds. An ordinary
peer does not repeat selectively. The connections have a SilenceTimeout, as those of roce and rsocket do: with the retries of verbs
alone the specification ends them in half a second. Of TCP two columns have the time, too; its model looks for an answer each 200 ms.

| path | flow | after, s | after the way back, s | lost | sent again | cubic, s | bbr, s |
|---|---|---|---|---|---|---|---|`, afterNs/Millisecond)
	for _, x := range changingPaths() {
		tcp := ""
		for _, beside := range []string{Cubic, BBR} {
			if x.Changes[0].StopNs > 0 { // the model of TCP has no process
				tcp += " |"
				continue
			}
			s := x.Path
			s.Beside, s.Flows[0].StartNs = beside, s.DurationNs
			r := c.run(&s)
			if c.err != nil {
				return
			}
			tcp += " " + times(r.After) + " |"
			x.Flows[0].StartNs = 0
		}
		for _, ordinary := range []bool{false, true} {
			for _, op := range []verbs.WROpcode{verbs.WRWrite, verbs.WRSend, verbs.WRRead} {
				if ordinary && op == verbs.WRSend {
					continue
				}
				s, name := x.Path, opNames[op][2:]
				if s.Ordinary, s.Flows[0].Op = ordinary, op; ordinary {
					name += ", ordinary peer"
				}
				r := c.run(&s)
				if c.err != nil {
					return
				}
				after := append(r.After, -2)
				c.p("| %s | %s | %s | %s | %d | %d |%s", x.name, name, seconds(after[0]), seconds(after[1]),
					r.Lost, r.Resent, tcp)
				x.name, tcp = "", " | |"
			}
		}
	}
}

// run plays a path.
func (c *controlPage) run(s *Path) (r *PathResult) {
	r, c.err = RunPath(s)
	if c.err == nil && r.Broken != nil {
		c.err = r.Broken
	}
	c.progress("a path that changes")
	return r
}

func seconds(ns int64) string {
	switch ns {
	case -1:
		return "-"
	case -2:
		return ""
	}
	return fmt.Sprintf("%.2f", float64(ns)/1e9)
}

func times(ns []int64) string {
	s := seconds(ns[0])
	for _, x := range ns[1:] {
		s += ", " + seconds(x)
	}
	return s
}
