package suite

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
)

const (
	// manyShards is how many shards a device has that is compared with one that has one, and how
	// many goroutines use either, each with a queue pair and a completion queue.
	manyShards = 2
	// lockTime is how long locks are watched.
	lockTime = 500 * time.Millisecond
	// namedLocks is how many functions are named.
	namedLocks = 4
)

func (s *Suite) lockTime() time.Duration { return cmp.Or(s.o.LockTime, lockTime) }

// shardPoints are what is compared: large messages, small ones in batches, and one by one.
var shardPoints = []struct {
	op   string
	size int
}{{"WRITE", 1 << 20}, {"WRITE", 4 << 10}, {"WRITE", 64}, {opAlone, 64}}

// shards is item 4: the same goroutines, queue pairs and queues on devices with several shards a
// side, and with one.
func (s *Suite) shards() error {
	for _, link := range s.o.Links {
		if link == "xdp" {
			continue // one process, and one link, has the queue of an interface
		}
		if err := s.shardsOf(link); err != nil {
			return fmt.Errorf("%s: %w", link, err)
		}
	}
	return nil
}

func (s *Suite) shardsOf(link string) error {
	cases := make([]report.Case, len(shardPoints))
	for i, p := range shardPoints {
		cases[i] = report.Case{
			Item: "shards", Name: fmt.Sprintf("%s %s, %d connections, %d shards a side, %s", p.op,
				report.Bytes(p.size), manyShards, manyShards, link),
			Link: link, Op: p.op, Size: p.size, MTU: 4096, QPs: manyShards, Mode: "goodput", Region: node.RegionBytes,
		}
	}
	with := func(shards int, f func() error) error {
		return s.with(setup{link: link, qps: manyShards, cqs: manyShards, shards: shards, wrs: 512, mtu: ib.MTU4096}, f)
	}
	for range s.o.Rounds {
		var of [2][]measured // with one shard, and with several
		for k, n := range []int{1, manyShards} {
			err := with(n, func() error {
				for i, p := range shardPoints {
					m, err := s.parallel(p.op, p.size, s.ns())
					if err != nil {
						return fmt.Errorf("%s: %w", cases[i].Name, err)
					}
					of[k] = append(of[k], m)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		for i := range cases {
			one, many := &of[0][i], &of[1][i]
			c := &cases[i]
			c.Add("x 1 shard", "", many.gbps/one.gbps)
			c.Add("CPU x 1 shard", "", many.cpu/one.cpu)
			c.Add("goodput", "Gb/s", many.gbps)
			c.Add("messages", "1/s", many.msgs)
			c.Add("goodput, 1 shard", "Gb/s", one.gbps)
			c.Add("messages, 1 shard", "1/s", one.msgs)
			c.Add("packets/datagram", "", many.PerDatagram)
			c.Add("sent again", "packets", float64(many.Resent))
		}
	}
	// Locks are watched apart, since that takes time of its own.
	for k, n := range []int{1, manyShards} {
		figure := [2]string{"lock waits, 1 shard", "lock waits"}[k]
		err := with(n, func() error {
			for i, p := range shardPoints {
				c := &cases[i]
				waits, err := s.locks(p.op, p.size)
				if err != nil {
					return err
				}
				total := 0.0
				for _, w := range waits {
					total += w.Seconds
				}
				c.Add(figure, "% of the goroutines' time", 100*total/(manyShards*s.lockTime().Seconds()))
				if n > 1 {
					c.Text = describeLocks(waits, total)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, c := range cases {
		s.o.Logf("%-72s %6.2f Gb/s = %.2f x 1 shard, waits for locks %.1f %%, with 1 shard %.1f %%", c.Name,
			c.Value("goodput"), c.Value("x 1 shard"), c.Value("lock waits"), c.Value("lock waits, 1 shard"))
	}
	s.r.Cases = append(s.r.Cases, cases...)
	return nil
}

// parallel runs streams on all completion queues of the requester at the same time.
func (s *Suite) parallel(op string, size int, ns int64) (measured, error) {
	base, batch, depth := posting(op, size)
	return s.timed(size, func() (node.BulkReply, error) {
		return node.Call[node.BulkArgs, node.BulkReply](s.a, "Parallel", node.BulkArgs{
			Op: base, Size: size, Region: node.RegionBytes, Batch: batch, Depth: depth, NoDelay: op == opAlone, Ns: ns,
		})
	})
}

// locks returns what goroutines of the requester wait for.
func (s *Suite) locks(op string, size int) ([]node.LockWait, error) {
	if err := node.Do(s.a, "StartLocks", struct{}{}); err != nil {
		return nil, err
	}
	_, err := s.parallel(op, size, int64(s.lockTime()))
	waits, stop := node.Call[struct{}, []node.LockWait](s.a, "StopLocks", struct{}{})
	if err == nil {
		err = stop
	}
	return waits, err
}

// describeLocks names the functions that were waited for most.
func describeLocks(waits []node.LockWait, total float64) string {
	var parts []string
	for _, w := range waits[:min(namedLocks, len(waits))] {
		name := w.Func[strings.LastIndexByte(w.Func, '/')+1:]
		parts = append(parts, fmt.Sprintf("`%s` %.0f %%", name, 100*w.Seconds/total))
	}
	return strings.Join(parts, ", ")
}
