package suite

import (
	"fmt"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
)

const (
	// maxQPs is the largest number of queue pairs.
	maxQPs = 10000
	// scaleMessage is the size of messages: those of all queue pairs fit in a socket
	// buffer of 16 MiB.
	scaleMessage = 1 << 10
	// scaleFrames has room for them in the rings of the xdp link.
	scaleFrames = 16384
	// restQPs and restTime are of the measurement at rest.
	restQPs  = 100
	restTime = time.Second
)

// scale is item 3.
func (s *Suite) scale() error {
	for _, link := range s.o.Links {
		if err := s.manyQPs(link); err != nil {
			return fmt.Errorf("%s: %w", link, err)
		}
		if err := s.atRest(link); err != nil {
			return fmt.Errorf("%s, at rest: %w", link, err)
		}
	}
	return nil
}

// heap is the live memory of both nodes.
func (s *Suite) heap() (heap, rss float64, err error) {
	for _, p := range []*node.Peer{s.a, s.b} {
		u, err := node.Call[bool, node.Usage](p, "Usage", true)
		if err != nil {
			return 0, 0, err
		}
		heap, rss = heap+float64(u.Heap), rss+float64(u.RSS)
	}
	return heap, rss, nil
}

// manyQPs has all queue pairs connected, and uses some of them.
func (s *Suite) manyQPs(link string) error {
	idle := report.Case{Item: "scale", Name: "memory of an idle QP, " + link, Link: link, QPs: maxQPs, Mode: "memory"}
	// The same without queue pairs, but for one.
	var heap0, rss0 float64
	o := setup{link: link, qps: 1, wrs: 16, mtu: ib.MTU1024, frames: scaleFrames}
	err := s.with(o, func() (err error) {
		heap0, rss0, err = s.heap()
		return err
	})
	if err != nil {
		return err
	}
	counts := []int{1, 10, 100, 1000, maxQPs}
	cases := make([]report.Case, len(counts))
	o.qps = maxQPs
	err = s.with(o, func() error {
		heap, rss, err := s.heap()
		if err != nil {
			return err
		}
		// Not of the queue pairs are the completion queue, 4 entries for each, and
		// what the benchmark itself notes down: that is in the figure, too.
		idle.Add("heap", "B/QP", (heap-heap0)/(2*(maxQPs-1)))
		idle.Add("resident", "B/QP", (rss-rss0)/(2*(maxQPs-1)))
		for i, n := range counts {
			cases[i] = report.Case{
				Item: "scale", Name: fmt.Sprintf("%d of %d QPs, WRITE %s, %s", n, maxQPs,
					report.Bytes(scaleMessage), link),
				Link: link, Op: "WRITE", Size: scaleMessage, MTU: 1024, QPs: n, Mode: "goodput",
				Region: node.RegionBytes,
			}
		}
		for range s.o.Rounds {
			var one float64
			for i, n := range counts {
				r, err := node.Call[node.BulkArgs, node.BulkReply](s.a, "Bulk", node.BulkArgs{
					Op: "WRITE", Size: scaleMessage, Region: node.RegionBytes, Batch: 1, Depth: max(1, 12/n), QPs: n,
					Ns: max(s.ns(), int64(n)*120_000), // several turns of each
				})
				if err != nil {
					return err
				}
				g := r.Goodput(scaleMessage) * 8 / 1e9
				if i == 0 {
					one = g
				}
				cases[i].Add("x 1 QP", "", g/one)
				cases[i].Add("goodput", "Gb/s", g)
				cases[i].Add("messages", "1/s", float64(r.Msgs)/float64(r.Ns)*1e9)
				cases[i].Add("sent again", "packets", float64(r.Resent))
				if n > 1 {
					cases[i].Add("Jain", "", jain(r.PerQP))
				}
			}
		}
		if heap, rss, err = s.heap(); err != nil {
			return err
		}
		idle.Add("heap, after traffic", "B/QP", (heap-heap0)/(2*(maxQPs-1)))
		idle.Add("resident, after traffic", "B/QP", (rss-rss0)/(2*(maxQPs-1)))
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range cases {
		s.o.Logf("%-60s %.2f Gb/s, Jain %.3f", c.Name, c.Value("goodput"), c.Value("Jain"))
	}
	s.o.Logf("%-60s %.0f B, after traffic %.0f B", idle.Name, idle.Value("heap"), idle.Value("heap, after traffic"))
	s.r.Cases = append(append(s.r.Cases, cases...), idle)
	return nil
}

// jain is Jain's index of fairness: 1 if all are equal, 1/n if one has everything.
func jain(x []int) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	return sum * sum / (float64(len(x)) * squares)
}

// atRest is the CPU time of nodes with connections that nobody uses.
func (s *Suite) atRest(link string) error {
	c := report.Case{Item: "scale", Name: fmt.Sprintf("CPU at rest, %d connections, %s", restQPs, link),
		Link: link, QPs: restQPs, Mode: "rest"}
	err := s.with(setup{link: link, qps: restQPs, wrs: 16, mtu: ib.MTU1024}, func() error {
		for range s.o.Rounds {
			// Every connection has been used.
			_, err := node.Call[node.BulkArgs, node.BulkReply](s.a, "Bulk", node.BulkArgs{
				Op: "WRITE", Size: scaleMessage, Region: node.RegionBytes, Batch: 1, Depth: 1,
				Ns: int64(10 * time.Millisecond),
			})
			if err != nil {
				return err
			}
			time.Sleep(restTime / 10) // not a wait for something: what is measured is that nothing happens
			before, err := s.cpu()
			if err != nil {
				return err
			}
			time.Sleep(restTime)
			after, err := s.cpu()
			if err != nil {
				return err
			}
			c.Add("CPU", "% of a core", 100*(after-before)/2/restTime.Seconds())
		}
		return nil
	})
	s.o.Logf("%-60s %.3f %% of a core", c.Name, c.Value("CPU"))
	s.r.Cases = append(s.r.Cases, c)
	return err
}
