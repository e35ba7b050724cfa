package suite

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
)

// pingTime is when a round of round trips ends that is not over.
const pingTime = 1500 * time.Millisecond

func (s *Suite) pingTime() time.Duration { return cmp.Or(s.o.PingTime, pingTime) }

// waiting is a way to wait for the peer.
type waiting struct {
	name string
	// The device and the link of the ceiling wait alike.
	polling bool
	spin    time.Duration
	raw     node.Waiting
}

var waitings = []waiting{
	{"event", false, 0, node.WaitSpin},
	{"event, no spin", false, -1, node.WaitBlock},
	{"polling", true, 0, node.WaitPoll},
}

// latency is item 2: with each process on a CPU of its own, which is how the aims were measured, as
// the scheduler likes, and with both on one CPU. TCP is treated alike. For two processes that block
// in turn the scheduler prefers one CPU, where a wake-up needs no interrupt of another; for two
// that spin one CPU is the worst there is.
func (s *Suite) latency() error {
	cpus, err := node.CPUs()
	if err != nil {
		return err
	}
	if len(cpus) < 2 {
		s.note("latency: with one CPU, the two processes cannot have one each")
	} else {
		err = s.pinned(cpus[0], cpus[1], report.OwnCPU)
	}
	if s.o.Pin {
		s.note("latency: nothing is measured where the scheduler likes")
	} else {
		err = errors.Join(err, s.latencies(report.AnyCPU))
	}
	return errors.Join(err, s.pinned(cpus[0], cpus[0], report.OneCPU))
}

// pinned measures with nodes on the CPUs given.
func (s *Suite) pinned(a, b int, place string) error {
	n, err := start(s.net, node.Place{CPUs: []int{a}}, node.Place{CPUs: []int{b}})
	if err != nil {
		return err
	}
	s.nodes = n
	err = errors.Join(s.latencies(place), n.close())
	s.nodes = s.free
	return err
}

// latencies measures all links with the nodes there are.
func (s *Suite) latencies(place string) error {
	var errs error
	for _, link := range s.o.Links {
		for _, w := range waitings {
			o := setup{link: link, polling: w.polling, spin: w.spin, raw: true, qps: 1, wrs: 512, mtu: ib.MTU1024}
			var err error
			if link == "xdp" {
				err = s.halfTrips(o, w, place, true)
			} else {
				err = s.with(o, func() error { return s.halfTrips(o, w, place, false) })
			}
			if err != nil {
				errs = errors.Join(errs, fmt.Errorf("%s, %s: %w", link, w.name, err))
			}
		}
	}
	return errs
}

// halfTrips does the rounds of one case. With alone, an interface takes one link at a time,
// so that each measurement opens its own; otherwise both are open.
func (s *Suite) halfTrips(o setup, w waiting, place string, alone bool) error {
	with := func(_ setup, f func() error) error { return f() }
	if alone {
		with = s.with
	}
	device, ceiling := o, o
	device.raw, ceiling.noDevice = false, true
	link := o.link
	const size = 64
	n := 2000
	if s.o.Full {
		n = 20000
	}
	n = cmp.Or(s.o.Pings, n)
	c := report.Case{
		Item: "latency", Name: fmt.Sprintf("SEND 64 B, %s, %s, %s", link, w.name, place), Link: link,
		Op: "SEND", Size: size, MTU: 1024, QPs: 1, Mode: w.name, Place: place, Region: node.RegionBytes,
	}
	if place == report.OneCPU && w.raw != node.WaitBlock {
		w.raw = node.WaitYield
	}
	serve := node.ServeArgs{Size: size, Region: node.RegionBytes, Echo: true, Wait: w.raw}
	for i := range s.o.Rounds + 1 {
		ping := node.PingArgs{Size: size, N: n, Ns: int64(s.pingTime()), Wait: w.raw}
		if i == 0 {
			ping.N = max(n/10, 1) // warms up, and does not count
		}
		var own, raw node.PingReply
		var err error
		err = with(device, func() error {
			return s.serving("Serve", serve, func() error {
				own, err = node.Call[node.PingArgs, node.PingReply](s.a, "Ping", ping)
				return err
			})
		})
		if err != nil {
			return err
		}
		err = with(ceiling, func() error {
			return s.serving("RawServe", serve, func() error {
				raw, err = node.Call[node.PingArgs, node.PingReply](s.a, "RawPing", ping)
				return err
			})
		})
		if err != nil {
			return err
		}
		tcp, err := node.Call[node.TCPArgs, node.PingReply](s.a, "TCPPing",
			node.TCPArgs{To: s.tcp, Size: size, N: ping.N})
		if err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		c.Add("p50 x TCP", "", own.P50/tcp.P50)
		c.Add("p50 x link", "", own.P50/raw.P50)
		c.Add("p99/p50", "", own.P99/own.P50)
		c.Add("p99 x link", "", own.P99/raw.P99)
		for _, x := range []struct {
			name string
			r    node.PingReply
		}{{"", own}, {"TCP ", tcp}, {"link ", raw}} {
			c.Add(x.name+"round trips", "", float64(x.r.N))
			c.Add(x.name+"p50", "us", x.r.P50)
			c.Add(x.name+"p99", "us", x.r.P99)
			c.Add(x.name+"p99.9", "us", x.r.P999)
		}
	}
	s.o.Logf("%-50s %.1f us = %.2f x TCP, %.2f x link; p99/p50 %.1f", c.Name, c.Value("p50"),
		c.Value("p50 x TCP"), c.Value("p50 x link"), c.Value("p99/p50"))
	s.r.Cases = append(s.r.Cases, c)
	return nil
}
