package suite

import (
	"errors"
	"fmt"
	"time"

	"github.com/goroce/goroce/bench/node"
	"github.com/goroce/goroce/bench/report"
	"github.com/goroce/goroce/ib"
)

// pingTime is when a round of round trips ends that is not over.
const pingTime = 1500 * time.Millisecond

// latency is item 2.
func (s *Suite) latency() error {
	var errs error
	for _, link := range s.o.Links {
		for _, mode := range []string{"event", "polling"} {
			polling := mode == "polling"
			err := s.with(setup{link: link, polling: polling, raw: true, qps: 1, wrs: 512, mtu: ib.MTU1024}, func() error {
				return s.halfTrips(link, mode, polling)
			})
			if err != nil {
				errs = errors.Join(errs, fmt.Errorf("%s, %s: %w", link, mode, err))
			}
		}
	}
	return errs
}

func (s *Suite) halfTrips(link, mode string, polling bool) error {
	const size = 64
	n := 2000
	if s.o.Full {
		n = 20000
	}
	c := report.Case{
		Item: "latency", Name: fmt.Sprintf("SEND 64 B, %s, %s", link, mode), Link: link, Op: "SEND", Size: size, MTU: 1024, QPs: 1, Mode: mode, Region: node.RegionBytes,
	}
	serve := node.ServeArgs{Size: size, Region: node.RegionBytes, Echo: true}
	rawServe := "RawServe"
	if polling {
		rawServe = "RawServePolling"
	}
	for i := range s.o.Rounds + 1 {
		ping := node.PingArgs{Size: size, N: n, Ns: int64(pingTime), Polling: polling}
		if i == 0 {
			ping.N = n / 10 // warms up, and does not count
		}
		var own, raw node.PingReply
		var err error
		err = s.serving("Serve", serve, func() error {
			own, err = node.Call[node.PingArgs, node.PingReply](s.a, "Ping", ping)
			return err
		})
		if err != nil {
			return err
		}
		err = s.serving(rawServe, serve, func() error {
			raw, err = node.Call[node.PingArgs, node.PingReply](s.a, "RawPing", ping)
			return err
		})
		if err != nil {
			return err
		}
		tcp, err := node.Call[node.TCPArgs, node.PingReply](s.a, "TCPPing", node.TCPArgs{To: s.tcp, Size: size, N: ping.N})
		if err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		c.Add("p50 x TCP", "", own.P50/tcp.P50)
		c.Add("p50 x link", "", own.P50/raw.P50)
		c.Add("p99/p50", "", own.P99/own.P50)
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
	s.o.Logf("%-60s %.1f us = %.2f x TCP, %.2f x link", c.Name, c.Value("p50"), c.Value("p50 x TCP"), c.Value("p50 x link"))
	s.r.Cases = append(s.r.Cases, c)
	return nil
}
