package simreport

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/goroce/goroce/roce/link/sim"
	"github.com/goroce/goroce/roce/verbs"
	"github.com/goroce/goroce/transport/cc"
)

// controls are those that the page on paths has, one beside the other.
var controls = []cc.Algorithm{cc.None, cc.ByDelay}

// flowsOf returns n flows with a control, whose round trips are those of rttNs in turn.
func flowsOf(n int, conf cc.Config, rttNs ...int64) (x []PathFlow) {
	for i := range n {
		x = append(x, PathFlow{RTTNs: rttNs[i%len(rttNs)], Op: verbs.WRWrite, CC: conf})
	}
	return x
}

// opNames end the names of paths.
var opNames = map[verbs.WROpcode]string{verbs.WRWrite: ", WRITE", verbs.WRSend: ", SEND", verbs.WRRead: ", READ"}

// controlPage is the page in the making.
type controlPage struct {
	b        bytes.Buffer
	progress func(string)
	err      error
}

func (c *controlPage) p(format string, args ...any) { fmt.Fprintf(&c.b, format+"\n", args...) }

// play runs a path with each control, and prints a row for each. Each flow begins apart ns after
// the one before.
func (c *controlPage) play(name string, s Path, flows int, op verbs.WROpcode, apart int64, rttNs ...int64) {
	for _, a := range controls {
		if c.err != nil {
			return
		}
		s.Flows, s.Seed = flowsOf(flows, cc.Config{Algorithm: a}, rttNs...), 1
		for i := range s.Flows {
			s.Flows[i].Op, s.Flows[i].StartNs = op, int64(i)*apart
		}
		var r *PathResult
		if r, c.err = RunPath(&s); c.err == nil {
			c.p("| %s | %v | %s | %s |", name, a, shares(r, s.Beside), r.neck())
			c.progress(name)
		}
	}
}

// shares are the columns of what the flows got.
func shares(r *PathResult, beside string) string {
	switch {
	case beside != "":
		return fmt.Sprintf("%.0f | %.0f", r.Total, r.Beside)
	case len(r.Goodput) > 1:
		return fmt.Sprintf("%.0f | %.3f | %.0f | %.0f", r.Total, r.Jain, slices.Min(r.Goodput), slices.Max(r.Goodput))
	}
	return fmt.Sprintf("%.0f", r.Total)
}

// neck are the columns of what became of the queue.
func (r *PathResult) neck() string {
	return fmt.Sprintf("%.2f %% | %d | %d", 100*r.Dropped, r.Queue.Percentile(0.5)/wireBytes,
		r.Queue.Percentile(0.99)/wireBytes)
}

// ControlPage returns the page on control by round trips, by file name.
func ControlPage(progress func(string)) (map[string][]byte, error) {
	c := &controlPage{progress: progress}
	c.p(`# Control by round trips, on slow paths

Made by ` + "`make sim-report`" + `; don't edit. The engine that runs is the real one; a run depends on its seed alone.
No packet is marked. The bottleneck has a queue that drops what does not fit. Messages of 64 KiB are always queued, nothing
but control or its window bounds a flow. Figures are of the time after one second, or after the last flow has begun. Lengths of the
queue are in packets.
"none" is the default: the window alone, which becomes smaller when a packet is lost for want of room ([loss](../loss.md)). "delay" is ` + "`--cc delay`" + `.

## A flow alone

| path | control | Mb/s | dropped | queue p50 | p99 |
|---|---|---|---|---|---|`)
	for _, x := range []struct {
		name  string
		rate  cc.Rate
		rtt   int64
		queue int
		loss  float64
		noise int64
	}{
		{"200 Mb/s, 1 ms, queue 100", 200, 1, 100, 0, 0},
		{"the same, 0.1 % lost", 200, 1, 100, 0.001, 0},
		{"1 % lost", 200, 1, 100, 0.01, 0},
		{"hosts that stall for 1 to 3 ms", 200, 1, 100, 0, 1},
		{"10 ms, queue 300", 200, 10, 300, 0, 0},
		{"the same, 0.1 % lost", 200, 10, 300, 0.001, 0},
		{"hosts that stall for 1 to 3 ms", 200, 10, 300, 0, 1},
		{"100 Mb/s, 40 ms, queue 400, 0.01 % lost", 100, 40, 400, 0.0001, 0},
	} {
		for _, op := range []verbs.WROpcode{verbs.WRWrite, verbs.WRRead} {
			s := Path{Rate: x.rate * cc.Mbps, Queue: x.queue, Loss: x.loss, DurationNs: 3000 * Millisecond,
				WarmupNs: 1000 * Millisecond}
			if x.noise > 0 {
				s.Noise = Noise{EveryNs: 10 * Millisecond, LeastNs: Millisecond, MostNs: 3 * Millisecond}
			}
			c.play(x.name+opNames[op], s, 1, op, 0, x.rtt*Millisecond)
		}
	}
	c.p(`
The most is %.0f Mb/s where the path has 200.

## Flows beside each other

200 Mb/s and a queue of 100 packets. All begin at once, or each 100 ms after the one before.

| flows | control | Mb/s | Jain | least | most | dropped | queue p50 | p99 |
|---|---|---|---|---|---|---|---|---|`, 200.*1024/wireBytes)
	s := Path{Rate: 200 * cc.Mbps, Queue: 100, DurationNs: 3000 * Millisecond, WarmupNs: 1000 * Millisecond}
	for _, n := range []int{2, 4, 8, 16} {
		c.play(fmt.Sprintf("%d, 1 ms", n), s, n, verbs.WRWrite, 0, Millisecond)
	}
	for _, n := range []int{2, 4} {
		c.play(fmt.Sprintf("%d, 2 and 10 ms", n), s, n, verbs.WRWrite, 0, 2*Millisecond, 10*Millisecond)
	}
	for _, n := range []int{4, 16} {
		s.WarmupNs = int64(n) * 100 * Millisecond
		s.DurationNs = s.WarmupNs + 2000*Millisecond
		c.play(fmt.Sprintf("%d, 1 ms, 100 ms apart", n), s, n, verbs.WRWrite, 100*Millisecond, Millisecond)
	}
	c.p(`
## Beside a TCP flow

One flow of each, over 10 seconds after the first; packets leave in runs. TCP is a model of what decides how much is on its way, and in
which bursts it leaves: cubic as RFC 9438 has it, and version 1 of BBR. Beside BBR, which goes by no loss, TCP cubic has no third either
([docs/bench/paths](../bench/paths/README.md#beside-a-tcp-flow)).

| path | control | Mb/s | of TCP | dropped | queue p50 | p99 |
|---|---|---|---|---|---|---|`)
	for _, beside := range []string{Cubic, BBR} {
		for _, x := range []struct {
			rtt   int64
			queue int
		}{{1, 100}, {10, 300}} {
			s := Path{Rate: 200 * cc.Mbps, Queue: x.queue, Beside: beside, Runs: true,
				DurationNs: 11000 * Millisecond, WarmupNs: 1000 * Millisecond}
			for _, op := range []verbs.WROpcode{verbs.WRWrite, verbs.WRRead} {
				c.play(fmt.Sprintf("%s, %d ms, queue %d", beside, x.rtt, x.queue)+opNames[op], s, 1, op, 0,
					x.rtt*Millisecond)
			}
		}
	}
	c.changes()
	c.p(`
## Incast

16 senders at 40 Gb/s, round trips of 4 us, %d MiB of buffer, and a message of 64 bytes each 20 us from one more. Control by
round trips has a target of 20 us there: what a target has to be longer than is the noise of hosts, and these have none.

| control | utilisation | Jain | dropped | queue p50 | p99 | message of 64 bytes, p50, us | p99 |
|---|---|---|---|---|---|---|---|`, BufferBytes>>20)
	for _, x := range []struct {
		name string
		conf cc.Config
		red  sim.RED
	}{
		{"none", cc.Config{Algorithm: cc.None}, sim.RED{}},
		{"delay", cc.Config{Algorithm: cc.ByDelay, Target: 20 * time.Microsecond}, sim.RED{}},
		{"dcqcn-paper, with marks", cc.Config{Algorithm: cc.DCQCNPaper}, PaperRED},
	} {
		if c.err != nil {
			break
		}
		x.conf.LineRate, x.conf.Capped = LineRate, true
		var r *PathResult
		if r, c.err = RunPath(&Path{
			Rate: LineRate, Queue: BufferBytes / wireBytes, Flows: flowsOf(16, x.conf, 4*Microsecond),
			RED: x.red, CNPNs: paperCNPNs, SmallNs: 20 * Microsecond, DurationNs: 30 * Millisecond,
			WarmupNs: 20 * Millisecond, Seed: 1,
		}); c.err != nil || len(r.Small) == 0 {
			continue
		}
		at := func(p int) int64 { return r.Small[len(r.Small)*p/100] / Microsecond }
		c.p("| %s | %.1f %% | %.3f | %s | %d | %d |", x.name, 100*r.Utilization, r.Jain, r.neck(), at(50), at(99))
		progress("incast, " + x.name)
	}
	c.p(`
## Why it is not the default

Without stalls or others it fills the path with a tenth of the queue, where the window alone fills all of it, as TCP does. But a flow whose processes stall for milliseconds has an eighth less than without, and more on machines that are
busier: over the link in user space of docs/bench/paths, which has two processors for both ends and the link, it has 148 Mb/s where the window alone
has 182, because what waits for processors looks like a slower path. 16 flows that do not begin at once are equal only after seconds.`)
	return map[string][]byte{"control.md": c.b.Bytes()}, c.err
}
