package lesson

import (
	"fmt"

	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/analyse/stage"
	"github.com/goroce/goroce/roce/link/fault"
	"github.com/goroce/goroce/roce/verbs"
)

// run is a lesson under way, and when it is over.
type run struct {
	l *lesson
	v values
	s *stage.Stage
	// said is what the hosts saw of it: completions, memory.
	said       []string
	wcs        []verbs.WC // of the last do
	tookNs     int64      // it
	before     int        // packets that A had sent again before what the lesson is about
	planned    []planned
	refused    bool // the connection, by RDMA-CM
	unanswered bool // the exercise has no answer yet
}

// planned is a fault that has to happen, or the run is not what it says.
type planned struct {
	host, rule int
	psn        ib.PSN
}

// first is the PSN of A's first request after warm.
const first = ib.PSN(1003)

func (r *run) say(format string, args ...any) { r.said = append(r.said, fmt.Sprintf(format, args...)) }

// us is the time now, in microseconds.
func (r *run) us() float64 { return float64(r.s.Net.Now()) / 1000 }

// lose has a host lose a packet it sends, the first time.
func (r *run) lose(host int, psn ib.PSN) {
	n := r.s.Hosts[host].Faults.Add(fault.Rule{Action: fault.Drop, PSN: psn, HasPSN: true, Iteration: 1})
	r.planned = append(r.planned, planned{host, n, psn})
}

// delay has the network deliver a packet of A after the one behind it, the first time.
func (r *run) delay(psn ib.PSN) {
	n := r.s.Hosts[0].Faults.Add(fault.Rule{Action: fault.Delay, Hold: 1, PSN: psn, HasPSN: true, Iteration: 1})
	r.planned = append(r.planned, planned{0, n, psn})
}

// check finds faults that were planned and did not happen.
func (r *run) check() error {
	for _, p := range r.planned {
		if h := r.s.Hosts[p.host]; h.Faults.Hits(p.rule) == 0 {
			return &ValueError{r.l.name, "PSN", fmt.Sprint(p.psn),
				fmt.Sprintf("nothing was lost: host %s sent no such packet", h.Name)}
		}
	}
	return nil
}

// do posts work requests on A and says how they ended.
func (r *run) do(wrs ...verbs.SendWR) error {
	start := r.s.Net.Now()
	for i := range wrs {
		wrs[i].ID = uint64(i + 1)
		wrs[i].Flags |= verbs.SendSignaled
		if err := r.s.Post(0, &wrs[i]); err != nil {
			return err
		}
	}
	r.wcs = nil
	for len(r.wcs) < len(wrs) {
		wcs, err := r.s.Await(0, 1)
		if err != nil {
			return err
		}
		for _, wc := range wcs {
			which := ""
			if len(wrs) > 1 {
				which = fmt.Sprintf(" %d", wc.ID)
			}
			r.say("At %.1f us host A has completion%s: %v.", r.us(), which, wc.Status)
		}
		r.wcs = append(r.wcs, wcs...)
	}
	r.tookNs = r.s.Net.Now() - start
	return nil
}

// warm sends three WRITEs: see lesson.
func (r *run) warm() error {
	for range 3 {
		if _, err := r.s.Do(0, r.s.Write(0, 64)); err != nil {
			return err
		}
	}
	return nil
}

// watch calls look every so many microseconds from now on, until a time in microseconds has passed
// or look returns false.
func (r *run) watch(everyUs, untilUs int, look func() bool) {
	at, end := r.s.Net.Now(), r.s.Net.Now()+int64(untilUs)*1000
	var again func()
	again = func() {
		if at += int64(everyUs) * 1000; look() && at <= end {
			r.s.Net.At(at, again)
		}
	}
	r.s.Net.At(at, again)
}

// recv posts n receives on B.
func (r *run) recv(n int) {
	if err := r.s.Recv(1, n, 8192); err != nil {
		r.say("At %.1f us host B cannot post a receive: %v.", r.us(), err)
		return
	}
	r.say("At %.1f us host B posts receives: %d.", r.us(), n)
}

// b is host B's memory.
func (r *run) b() []byte { return r.s.Hosts[1].MR.Bytes() }

// word is an address in B's memory for an operation of A on the 8 bytes there, with A's bytes at
// off.
func (r *run) word(op verbs.WROpcode, off, remote int) verbs.SendWR {
	w := r.s.Write(0, ib.AtomicBytes)
	w.Opcode, w.RemoteAddr = op, r.s.Hosts[1].MR.Addr()+uint64(remote)
	w.SGList[0] = r.s.Hosts[0].MR.SGE(off, ib.AtomicBytes)
	return w
}
